/* The packed table, whose form scripts/tables/mappings.py describes, and what looks into it. */
#include "unicode/mappings.h"

#include <stdlib.h>

/* Written by scripts/tables/mappings.py from Unicode 14.0.0. */
static const char packed[][103] = {
    "eoThm[~Qc_[nF@_HZA@^rLH@aRQAaQ^rDK@^HE@BEA^I^qZE@^}@KA^|[^tRE@^FE@aLHBaKni@`TEB@@CEBD@DFA^@lvCCA@BCA@B",
    "CA@BCA@JCA@DFAD_BCAD_UCA@BCA@BCA@LCAHOCA@BCA@BCA@LFAJICABECA@BCA@BCA@BCA@JIALOCA@BCA@BCA@LCAHMIAPACA@B",
    "CA@BCA@BCA@JCA@DFAD_BCAD_UCA@BCA@BCA@LCAHOCA@BCA@BCA@LFAJICABECA@BCA@BCA@BCA@JIALOCA@BCA@BCA@LCAHMFA@N",
    "CA`[GCA_H@CA_GDCA_H@CA_G_LCA_H@CA_C_UCA_H@CA_GBCA_H@CA_GJCA_H@CA_GJCA_H@CA_E@CA_H@IA_EOCA_H@CA_GDCA_H@",
    "CA_GBCA_H@CA_G_JCA_H@CA_G^[CA_H@CA_CSCA_H@CA_GHCA_H@CA_GBCA_H@CA_G_HCA_H@CA_E_QCA_H@IA_EBCA_H@CA_GBCA_",
    "H@CA_GDCA_H@CA_G_LCA_H@CA_G_IHA@^mAEA_H_HCA_E^jLCA_H@CA_E_RCA_H@FA_E_SCA_H@CA_G_TCA_H@CA_G^YCA_H@EA_G^",
    "eQEA_H@IA_C^dXCA_H@CA_G_TCA_H@CA_G^YCA_H@EA^eD^jWIA^gI^jHCA_H@CA_GDCA_H@CA_GJCA_H@IA_ASCA_H@CA_G_TCA_H",
    "@CA_G^YCA_H@CA_EUCA_H@CA_GBCA_H@CA_G_RCA_H@CA_G^YCA_H@CA_E^ZCA_H@CA_G^YCA_H@IA_EQCA_H@CA_GBCA_H@CA_GDC",
    "A_H@CA_GHCA_H@CA_GBCA_H@CA_G_BCA_H@CA_C_SCA_H@CA_C@CA_H@CA_GLCABMCA_H@CA_GLCA_H@CA_GJCA_H@E@M`OA_O^sVC",
    "A_H@^NA^W@CA_H@_FA`MzOEA@BEA_H@EA^Sr[EA@_HEA_H@EA_C_GEA@_HEA_H@CA`E^kDCA_H@CA^S@CA_H@CA^W@CA_H@CA^W@CA",
    "_H@CAdJOCA_H@CA_GECA_H@CA_GVCA_H@CA_GWCA_H@FA`[HCA_H@CAt@@CAB@CAvE@CA_H@IAhIPCA_H@CA^[@CA_H@CA^[_@CA_H",
    "@CAxB_OCAB@CA`SPCAlR@CA^bK@EA_S^lGEA@_HEA_H@CA_A^iFCA_H@IA^UACA_H@CAcFBCA_H@CA_E@CA_H@CA[@CA_H@CAjA^@C",
    "A_H@CA_GDCA_H@CA^[CCA_H@CA_GDCA_H@CA^[CCA_H@CA_GDCA_H@CA^WCCA_H@CA_GDCA_H@CA_ACCA_H@CA_GDCA_H@CA_ACCA_",
    "H@CA_GDCA_H@CA_K^NCA_H@CA_E@CA_H@IA`C^WCA_H@UA_UICA_H@CA^[_HCA_H@CAeB_MCA_H@CA_I@CA_H@CAhWFCA_H@CA|ZEC",
    "AB@CA~O@CA_H@jM@^EE@^_LE@^_GE@PE@^`BE@DE@LE@^`GE@D`NAcI^rHEA@BEA@FEA@_DEA@_QEA@PK@^dJE@^^YE@NE@JE@^aRf",
    "Y@dRD@BG@^HDAU^qZbE@bQTA^jM^vVM@^ZTA^Y^qZCAfT@CA^pF@D@^oCCA^oL^qZCAD@CAD@FAL@FAL@CAH@CA_J@_VA`MNCAX@CA",
    "XMCAH@CAD@CAD@CA^H@_VA^GNCAX@CAKMCAL@CAH@H@^QE@LE@^ICA`F^qZCA@NE@WE@K_X@KE@NE@BH@_[E@_BN@^GUAeD^qXCA@P",
    "FACMLAYNOA^LMCACACAVL^EAU@`LA_H@_MAEKCA@PFACMLA_NNOA^[MCACACAVL_PA`NRCAB@dZAcUQCA_H@^NA_S@CA_H@CA_GDCA",
    "_H@IA^YCCA_H@IAhRDCAB@CAjY@CA_H@CA_E@CA_H@IA_EGCA_H@CA_GHCA_H@CA^W@CA_H@IAiD@CAB@CAjK@CA_H@CA_[GCA_H@C",
    "A_GHCA_H@CA_GFCA_H@CA^[ECA_H@IA^[@CA_H@lHAqD^hHmQAjXkZCA@BCA_J@CA_IBCA_NAeOA_M_HEA_J@EAfB@EAeY@dTAfZ_G",
    "FA^K@^WA^F@^{BA^eT^pDXAP@IAF@`YA_C@DAB@DAB@DAJ@DAJ@DAB@DAR@DAH@hPAgXfHCA@^V^UA_S^YDAB@GAZ@fAAfJfDJAL@`",
    "VA_K@DAB@DAJ@JA^B@vBAqHqDIA@^SCA@^V^UA_S^YDAB@bYAe@hBbVA`T^UCAB@CAA^VjHAfDfBiXAeRfBUAN@CA@BFA@^KCAH^Jj",
    "QAeXdNCAB@CAA^VlFAgNeFFA@JCAFICAE^NfEAeHbZjVAfDfDaMA_K^UEA@PbC@cXbZA`ZelJ^CAT@PAJ@PAJ@PAJ@^LA^YC^CA`Na",
    "UGA@DDAaRXEA@BDABAEA@BYAaSA^[A_J`Z^CAT@PAJ@PAJ@PAJ@^LA^YChSAgReRt@@jBe`JAblVkrNFAD@FAD@FAD@FAD@LAH@aKA",
    "_Z@FAD@IAD@CAB@FAF@^oM@knUE@fNE@fKH@DE@BE@tNE@tIE@BE@BE@BE@BE@BE@BE@BH@BE@~JE@~GE@DE@DE@BE@DE@TE@^^JE@",
    "BE@kiBE@ljKE@DE@BE@^^TE@DE@BE@^^UH@HE@DE@lXE@lSE@^]RE@kjHE@BE@ljYE@HE@BE@lk@E@khWE@^_AE@lkNE@jtIE@BE@B",
    "E@^HE@BE@^xOE@RE@FE@BE@^vDE@BE@^@E@JE@B^P@eL`W@^^AE@^^IE@^^PE@vME@w@E@^^WE@^_BE@DE@HE@FE@BE@BE@koZE@kl",
    "GE@`KE@kpLE@klWE@`GE@AE@DE@BE@BE@BE@FE@TE@BE@lKE@lXE@BE@kfXE@kfUE@BE@^`WE@^aDE@BE@BE@r@c[A^zI^tNCA_H@C",
    "A_E_CCA_H@CA_G_@CA_H@CA_G^@CA_H@CAdF`KCA_H@CAhQLCA_H@CA_G_@CA_H@CA_G^@CA_H@CA_GSCA_H@CA_GLCA_H@CAiL`EC",
    "AB@CAABCAB@CAkS`DCA_H@CA_GFCA_H@CA}F_[CAB@CA^]MBCA_H@CA_EECA_H@CA_EFCA_H@CA_G_@CA_H@CA_G^YCA_H@CA_G_FC",
    "A_H@CA_GNCA_H@CA_EDCA_H@CAdH`ICA_H@CAhS@CA_H@CA_G_LCA_H@CA_G^@CA_H@CA_E[CA_H@CAm]T_ECAB@CAm`A`FCA_H@CA",
    "_GGCA_H@CA_E`CCA_H@CA_GLCA_H@CA_G_@CA_H@CA_E^[CA_H@CA_G_@CA_H@CA_G^@CA_H@CA_GGCA_H@CAdJ`CCA_H@CA_GNCA_",
    "H@CAcFOCAB@CAABCAB@CAoA@CA_H@CA_GLCA_H@CA_C@CA_H@CA_G_@CA_H@CAm_X_ECAB@CAmbE`FCA_H@CA_E_[CA_H@CA_G_@CA",
    "_H@CAmN^[CAB@CAJ@CAB@CAlqJ@CAB@CAmbQ@CA_H@CA_G_@CA_H@CA_G^@CA_H@CA_GGCA_H@CA_EQCA_H@CA_GXCA_H@CA_GECA_",
    "H@CAnJ`CCAB@CABNCAB@CApUICA_H@CA_G_HCA_H@CA_E_MCA_H@CA_GBCA_H@CA_GNCA_H@CA_GACA_H@CA_G_@CA_H@CA_E^[CA_",
    "H@CA_GBCA_H@CA_EACA_H@CA_EICA_H@CA_G_JCA_H@CA_G^@CA_H@CA^G@CAX_YCAFDCAD@EA^SbKCAqLbFOAsS_@CA_H@CA_G^WC",
    "A_H@CAcZOCA_H@CA_GACA_H@CA_GRCA_H@CA_GKCA_H@CAl~XACAB@CAl|QACAB@CAAACAB@CAARCAB@CAAKCAB@CAl|NFCAB@CAmh",
    "C_BCA_H@CA_G^WCA_H@CA_GKCA_H@CAdFCCA_H@CA_GACA_H@CA_GRCA_H@CA_GKCA_H@CAm^@ACAB@CAmiONCA_H@CA_G^XCA_H@C",
    "A^W@CA_H@CA_G^WCA_H@CAdFOCA_H@CA_GACA_H@CA_GRCA_H@CA_GKCA_H@CAm^TACAB@CAltMACAB@CAAACAB@CAARCAB@CAAKCA",
    "B@CAA_HCAB@CAtS@CA_H@CA_G^WCA_H@CAsLOCAB@CAAACAB@CAARCAB@CAAKCAB@CAA_HCAB@CAuM_MCA_H@CA_G_NCA_H@CA_G^W",
    "CA_H@CA_GKCA_H@UA^uX^DCA@BCAktJ^KCAB@CAABCAB@CAAaRCAB@CAkvS`ICA@BCAkwF^KCAB@CAABCAB@CAAaRCAB@CAktS`ICA",
    "@BCAkuF^KCAB@CAABCAB@IAkwO^HCA@BCAkxB^KCAB@CAABCAB@IAkuS^HCA@BCAkvF^KCAB@CAABCAB@CAAaRCAB@CAkxO`ICA@BC",
    "AkyB^KCAB@CAABCAB@CAAaRCAB@CAkvS`ICA@BCAkwF^KCAB@CAABCAB@CAAaRCAB@CAkyO`ICA@BCAkzB^KCAB@CAABCAB@CAAaRC",
    "AB@CAkwK`ICA@BCAkwZ^KCAB@CAABCAB@IAkzG^HCA@BCAkzV^KCAB@CAABCAB@IAkxC^HCA@BCAkxR^KCAB@CAABCAB@CAAaRCAB@",
    "FAkz[`GFAk{P^KFA@BFA@aRCAkx[`ICA@BCAkyN^KCAB@CAABCAB@CAAaRCAB@CAk{W`ICA@BCAk|J^KCAB@CAABCAB@CAAaRCAB@C",
    "Ak{WaSD@ICAR^qXD@OCAT^qXD@QCAV^qXD@SCA^D^qXD@ZCAM^qXD@PCAG^qXD@JIAkrH^vVCAB@CAB@CAB@CAB@CAB@CAB@CAB@CA",
    "B@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CA^F@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CA`N@CA",
    "B@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAB@CAk|GaMCA@CCAk|JaRCAk|I@CAI@FAJECAl_JFCAlaQa",
    "MCA@CCA@GD@UCAV^vVEA^yY`OD@^|VEA^|U^sFEA@`JCAfT@CAmpDFCAk|E@CAQ@FARECAl`BFCAlbMaYD@YCA^B^qXD@[CA^@^vVC",
    "AlaXaYCA@BCA@aRCAl_KaGCA@CCA^FGD@aCIA_Z^vPCA^F@CA`MaGCA@CCA@GD@^AFAlgH^qXCA@BCA@aRCAlcAaGCA@CCALGD@^YC",
    "A^F^sFCA@BCAH`HCAL@CA_SaGCA@CCA@GD@^QCA^J^sHCA^qI^KD@^oJD@^tMIAmuX^vVCAk{M@CAJ@FAIECAlbFFCAleEaYD@^ICA",
    "_B^qXD@^WCA^X^vVD@^qAEAgO^sHG@nb@D@BE@nbAE@@E@@E@@E@@E@@E@@E@@E@@W@nc@TAnb[^uN^M@^@EA@`HEB@@`H^A@[NAne",
    "LngTEB@@ngTHAFFEB@@ngZQAneOneOHAA^oX^AA_F^mSEA@_CEA_C_D^PCneJncFngTngTZ@neK^Y@^DE@aBK@`UE@BE@BE@BE@BE@",
    "BE@[E@odZE@ocQE@^ME@BE@aZE@aKE@BE@BE@BE@BE@BE@BE@BE@BE@BE@[E@odZE@ocQE@^ME@BH@a@E@HE@TE@RE@^]JE@^^ME@F",
    "E@BE@BE@BE@DE@FE@B^JA_KeFfNB^BaWdBEB@@^DE@_CEAdVaVHBbM^KdZEB@@LE@rNHAl[b@E@bEE@_EE@@E@@E@_HE@jRE@lWE@@",
    "E@FE@_HH@_CEA@dZK@DE@BE@BE@@E@@KABbNEBBObLEA@PH@LG@^wNH@^wMG@^AD@eTE@fIE@BH@_LE@_GE@BH@NE@_LE@_{JE@BE@",
    "BE@BE@_{[HB_MaRcHE@^zPE@YE@_GE@ZE@miRQ@ocAE@_HE@BE@HE@BWBaAni@`ZEB@@DEC@@O`LEB@@DEBB@@EBA@DEBB@@EBB@@E",
    "BB@@EBE@BEBH@@EBG@DEBD@@EBD@@EBD@@EAK@E@^TEA@bFEB@@bFEA@ZE@ZEA@bFEB@@bFEC@@@bFEAY^BE@^BEA@bFEB@@bFE@WE",
    "@QE@BE@RE@_@EA@dNEB@@dNEA@ZE@ZEA@dNEB@@dNEC@@@dNEAY^BE@^BEA@dNEB@@dNE@WE@QE@BE@R^DBaIni@`R^WAn}HlrCCAD",
    "@_AAD@`IAaH@CAH@CAC@bSA`N@OAJ@IAF@_PA^T@FAD@TALmrZEB@@oiVHAFFEB@@oj@^WA^@msCIAN@IAD@FAF@_MAogM@FAoiH@^",
    "EA^K@CAogY@CAD@CAoiL@CAB@IAZ@CAB@IAF@CAB@UAF@CAB@IAN@CAB@IAF@CAB@`UA^Z@CAL@CAB@CAD@bGA`I@CAB@CA^L@CAB@",
    "UA_H@CAB@CAB@CAB@cM@dbRD@B~H@vuWE@BE@BE@BE@BE@BE@BE@BE@BEAO`LEA@BEA@BEA@BEA@BEA@BEA@BEA@BEA@BEA@BEABQE",
    "BSB_ZEB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EC@ON_ZEC@@B@EC@@B@EC@@B@EC@@B@EC@@B@EC@@B@EC@@B@EC@@B@EC",
    "@@B@EC@BQ@EARGEAB@EAB@EAB@EAB@EAB@EAB@EAB@EAB@EBOD`HEB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EBBQ@",
    "EBS`NIEB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@E",
    "B@B@EB@B@EB@B@EB@B@EB@B@EB@B@E@^VE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@NE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@bGaaXCofJoiVoiVo",
    "iVhFBoeQoeQoeKEAFFEB@@aJg[As|L^qN^gR@syEE@^Kw@@udR}R@~pLfB@xzP^M@^f{ME@_XE@^@E@RE@^XE@`DE@NE@^LE@^XE@^",
    "iBE@_TE@LE@^RE@^LE@^NE@`VE@^NE@VE@hBE@cTE@_@E@JE@_DE@RE@^ZE@ZE@^VE@`TE@^HE@^ZE@^q@E@bDE@}XE@^RE@PE@VE@",
    "^HE@bLE@^]BE@`LE@ePE@^RE@^JE@^PE@`XE@FE@vXE@TE@XE@ZE@eHE@PE@JE@eJE@TE@ZE@PE@aJE@^FE@^HE@bTE@^dNE@`HE@^",
    "NE@^oXE@JE@bZE@^DE@ZE@^NE@_VE@JE@pBE@^TE@_HE@_aPE@aTE@^RE@aDE@^TE@RE@NE@`TE@JE@_HE@_fBE@|ZE@XE@JE@HE@P",
    "E@^HE@DE@bVE@lLE@JE@uFE@TE@`PE@NE@RE@PE@cNE@NE@mHE@NE@`NE@^FE@`JE@mZE@NE@^FE@tJE@f@E@LE@j@E@cFE@`HE@x@",
    "E@fNE@^d@E@^ZE@aBE@`RE@aXE@VE@LE@_JE@bLE@TE@uTE@NE@RE@RE@^DE@^BE@HE@bRE@HE@LE@__BE@_DE@~NE@XE@^RE@qFE@",
    "ZE@bBE@`HE@^cNE@^BE@^BE@_NE@_RE@kFE@XE@aVE@nTE@_FE@kZE@^NE@JE@lTE@jDE@eZE@LE@JE@^}TE@RE@hDE@h@E@FE@`JE",
    "@dNE@ZE@HE@NE@d@E@_LE@LE@^@E@hZE@`RE@HE@jBE@FE@^JE@o@E@`LE@NE@b@E@TE@FE@TE@_DE@yFE@yPE@TE@_TE@^PE@PE@T",
    "E@HE@_XE@HE@^FE@JE@ZE@^ZE@^BE@PE@aFE@^BE@HaS@_nwObX@vwTH@o|JE@FE@B^ZAoxOwaRFAD@FAD@FAD@FAD@FAD@FAD@FAD",
    "@FAD@FAD@FAD@FAD@IAF@FAD@FAD@UAN@CA@BFAFACA@BFAFACA@BFAFACA@BFAFACA@B_MA`UAWAv{K@EA@BFAw_RAEA^M^A^KA_N",
    "^BFAD@FAD@FAD@FAD@FAD@FAD@FAD@FAD@FAD@FAD@FAD@IAF@FAD@FAD@UAN@CA@BFAFACA@BFAFACA@BFAFACA@BFAFACA@B_MA`",
    "UAIAbF@CAB@CAB@CAB@LAV@EAbG`JbL@n^QE@BE@iBE@h[E@iDE@BE@iCE@BE@BE@iFE@BE@BE@BE@BE@BE@hAE@^KE@BE@BE@^VE@",
    "^SE@BE@BE@BE@BE@BE@BE@BE@BE@BE@bRE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@^ME@bKE",
    "@BE@iTE@BE@HE@DE@JE@HE@DE@jME@jVE@DE@jWE@BE@DE@DE@BE@HE@DE@DE@BE@BE@BE@BE@FE@HE@TE@NE@JE@hVE@BE@hAE@BE",
    "@BE@`BE@BE@FE@RE@BE@DE@TE@FN@}lZE@g@E@fIE@avHE@avEE@_NE@_KE@r^ZE@q{IE@aOE@^SE@c]@E@^_AE@aoSgMB^eeSfaX_",
    "ZEB@D@EB@B@EB@D@EB@B@EB@B@EB@D@EB@D@EB@B@EB@D@EB@B@EB@B@EB@B@EB@B@EC@^GfeX_ZEC@D@@EC@B@@EC@D@@EC@B@@EC",
    "@B@@EC@D@@EC@D@@EC@B@@EC@D@@EC@B@@EC@B@@EC@B@@EC@B@@EC@KZ@EF@AIf_VfiBfnB_ZEE@@@LRfkCHB@}wRffKEB@g@@EB@",
    "fI@EB@avH@EB@alI@EB@^oB@EB@^yK@EB@^yH@EB@^rW@EB@_rL@EB@grR@EB@b^R@EB@_fA@EB@_uG@EB@s}B@EB@|pG@EB@d}D@E",
    "B@^dN@EB@qQ@EB@fwZ@EB@q]A@EB@miH@EB@k_H@EB@giG@EB@qwY@EB@_^U@EB@`]J@EB@`uL@EB@kwR@EB@rlG@EB@~dP@EB@{{M",
    "@EB@qmR@EB@swO@EB@xhV@EB@R@E@^hxBE@a|VE@`wVE@hyX^AB^}fQc@aZEA_C_MEA@BEA@BEA@BEA@BEA@BEA@BEA@BEA@BEABQE",
    "A@BEA@BEA@BEA@BEA@BE@f^FE@DE@BE@DE@BE@BE@DE@DE@BE@DE@BE@BE@BE@BEA^GfhVEAD@EAB@EAD@EAB@EAB@EAD@EAD@EAB@",
    "EAD@EAB@EAB@EAB@EAB@EDG@fnZfaXfiJECCZiGeHEAA@H@}wRE@g@E@fIE@avHE@alIE@^oBE@^yKE@^yHE@^rWE@_rLE@grRE@b^",
    "RE@_fAE@_uGE@s}BE@|pGE@d}DE@^dNE@qQE@fwZE@q]AE@miHE@k_HE@giGE@qwYE@r^TE@_mQE@k|SE@zp@E@^]]ME@^dPE@jtTE",
    "@tcJE@^bd[E@^iHE@jzPE@lwQE@_NE@_KE@enZE@bhYE@jCE@amXE@`ME@kwRE@rlGE@~dPE@{{ME@``TEA^jxU`XEA@BEA@BEA@BE",
    "ABQEA@BEA@BEA@BEA@BEA@BEA@BEA@BEA@BEA@BEABQEAG^rgPEAB@EAB@EAB@EAB@EAB@EAB@EAB@EAB@EBO^rgO^rk@EB@B@EB@B",
    "@EA^R`VEB_BVdJEA@^[EB^UCaXE@v~XE@DE@DE@DE@DE@BE@DE@DE@DE@DE@DE@DE@DE@DE@DE@DE@DE@FE@DE@DE@DE@BE@BE@BE@",
    "BE@BE@FE@FE@FE@FE@FE@BE@BE@BE@BE@DE@DE@DE@BE@BE@BE@BE@BE@DE@BE@BE@BEAm`P^hm@ECmfGpdIwhTwe@EC@^X_U_UEC@",
    "PJBEB@R^FECD`MPwcHEB@_X`OEBDbG`PEDD^DaWwhTweBEC@aVG@EBDQ^@EB@R_VEBBcGTEC@aZ_Uwe@EC@H_V`TEBB@REB@L^MEAD",
    "bAEB@_FwhTECA^X^GwhTECBL_[@EAADED@@wcHwgJwfTEE@@`N^J^SwgNED@@^@aA@EBFG^AED@@@we@whBEDAD_O_OKEC@DaP_ZEB",
    "D^BaUEBD^E^FEB@^F^JECDcG`GwgNED@bR^H^FwfTECDQ`PbKEBHR`OEB@@NEBJR^AEANaYEAD`TEAAPEAD_QEBHUwe@EBB_EGEDDc",
    "HQwhBwe@EB@@RECA@_XwgNEDHcK`Q_MwgNEB@Z`PEA@HEAAa@EDDbGwgJwdRweBEC@D^JJEDB_HaY_IwgNEBA_TaHEDFaC`SwhTwgN",
    "EAD^@EB@^@weTEBC_H[EBDPUEB@RAEBA@NECHcG`Twe@EBAbB`AEAAPEBD@weBEBCR_LEB@@PECFcGaWwgREB@@aHEB@_F^[EB@_X_",
    "GED@PPwgFwhBECBaW`XXEA@aFED@@wePwhTwgNEADaKEC@@we@whBEC@bT@OEBF@BEB@@_LEBDcKPECH_J`AwgNEA@_TEBB^MwhTEC",
    "@_X_SwgNEAB^[ED@^Jwe@wcLwhBEBF`K@EAwdI^]jPEAB@EAB@EAB@EAB@EAB@EAB@EAB@EAB@EAB@EBO^wnU^wrFEB@B@EB@B@EB@",
    "B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EBBQ@EB@B@EB@B@EB@B@EB@B@EB`X_@^wkGEAG^FEA_MWEB_JXeDEAZUEABZEAWTEB@@iT",
    "EB@@BEA^Y^SEA^mrX^opBEAabHdfCEAd]CifREAc|ZuPEC^aPdh[^eoL^|d@EA^rwS^m~OEAC@EA^wL@EA^wM@EAC@EA_GBEAD@EAK",
    "@EB_@_FdTECPDUdTEAJ_AEAC@EA^wL@EA@_JEA^wM@EAC@EA_M^JEB_N`OeTEB_C@@EBK@@EBZ@@EA^yHnrREA^wM@EAQ@EAN@EAIn",
    "o[EAP@EA^wL@EA^wM@EAS@EAP@EBD@iTEBS@@EATaZEBCaYiTEBD@BEBS@@EATb@EBCa[iVEBDo`LaOEC@@@iTEA_AoaGEB^Z^EcZE",
    "B_C@@EBK@@EB`B^FFED@@@ohFeFEE@@@@@iTEAC^HEAC@EA^wL@EA^wM@EAF_AEAC@EA^wL@EA^wM@EAC@EA_C@EA_NBEAC@EA^wL@",
    "EA^wM@EAC@EA_C@EA_D^wTEA_C@EC^L^zQdV`HEA_EaVEA_J[EA@BEC_GoaBdRdJEB@o`GaIEA_J`EEA_A`ZEA_J^SEA_G^EEA_J_D",
    "EA_C_MEA@DEA_H_VEABMEA@BEB@BdJEA@REAB^OEB@NdTEB@L@EA_A_UEC_H^WdV`HEB_G_L_GEA@DEA_N_HEA_GHEAH^KEBAoaFdV",
    "EB^M@@EA^C^_m@EAB@EAB@EAB@EAB@EAB@EAB@EAB@EAB@EBO^qtU^qxFEB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@",
    "EBBQ@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EBBQ@EB@B@EB`T`L^qpM_ulU@_`BE@DsS@_pvBk@@_r{WE@FE@VN",
    "@lFE@`F_u[@_rcHE@_cHE@_swOE@_syN^D@_swA^yqF@_c_ND@q_OD@rkLD@^_SD@m`YD@noMD@`_FD@^cuND@@D@^`xID@{jDD@}k",
    "KD@_]RD@asTD@g~ZD@a{PD@`r@D@xBD@sTD@a_VD@quYD@^sRD@_]LD@^rFD@exJD@d_ZD@apZD@^cpID@_sND@isVD@`xRD@gx@D@",
    "izVD@^]y[D@g]FD@hwDD@^|RD@qvYD@mtZD@`iVD@sdUD@alVD@`jRD@_~XD@m^HD@^^`SD@^cBD@rBD@frHD@`eVD@`{JD@_qND@a",
    "{LD@`eBD@cDD@a_ND@a~JD@_fND@^iND@qaKD@nJD@_dND@`gRD@ecND@cbZD@gpMD@wzQD@`gJD@lwXD@_dHD@dp[D@`lDD@gvDD@",
    "bmRD@~jYD@^{TD@diJD@_^BD@sBD@dqHD@oXD@i}HD@^_fUD@uqBD@v`QD@^CD@rtDD@^}LD@`hJD@f}PD@b{ID@r{AD@`zRD@nvDD",
    "@}tED@diDD@_eFD@glVD@^]ZD@omAD@qiXD@sb[D@ep@D@fl[D@moFD@`|[D@iuTD@seMD@_mFD@mmFD@daXD@`kRD@mrSD@phPD@o",
    "{WD@baKD@nbJD@mxUD@foZD@qxYD@^lZD@cXD@idLD@g~@D@_~DD@anJD@`vVD@~xGD@tVD@_wZD@_}BD@`tFD@bmZD@a|TD@lhJD@",
    "_oRD@_eJD@`ZD@^c~ID@gyVD@_nVD@pgVD@wgSD@^sXD@e@D@^jPD@bsRD@^bHD@^vLD@_yBD@_eDD@^hJD@d|BD@bmWD@c]ZD@^tR",
    "D@^^_ED@g@D@^aLD@l_VD@i{LD@^]XD@tqID@rLD@^{LD@ajZD@e{XD@auQD@psQD@ahVD@_sDD@~JD@^fPD@goDD@jBD@c]RD@iHD",
    "@frXD@_p@D@bXD@kXD@^b]QD@ssND@i|HD@_tTD@y}MD@fzQD@^ePD@b}PD@bVD@b^@D@_iRD@acPD@_jLD@d|HD@ccHD@e`ND@{sQ",
    "D@vrHD@^_iYD@hf@D@ePD@_z@D@uVD@_|FD@u@D@^sDD@_mZD@ktHD@^abED@f]JD@yaDD@^`xMD@c}LD@f^ND@n{@D@vqUD@|ND@`",
    "sVD@cbDD@oxZD@^_wAD@^]TD@amLD@bd@D@sND@uTD@_fND@`yJD@^]@D@bbJD@b]TD@^HD@axBD@_v@D@^_iUD@kwND@kgQD@l~BD",
    "@^mXD@fhXD@e}RD@`_HD@^dTD@zqGD@`hLD@gxVD@`yAD@cBD@wLD@bfOD@^bID@kjBD@}p[D@ydHD@whSD@`QD@cwVD@_eJD@j~RD",
    "@n|ED@flVD@`lGD@rxBD@`uUD@doBD@czGD@s~CD@dgED@_kHJ@^jPG@dpXJ@h_KD@n{XD@^}HD@^gTD@_LD@ND@`@D@m]ND@kgGD@",
    "^qVG@`jVG@_rPJ@_y@D@kBM@afHD@ZD@`DD@_lDD@c{SD@`aZD@^acYD@sJD@dHD@xDD@^ZD@dVD@^e@D@dND@d@D@~TD@dLD@_]HD",
    "@TD@_dXD@lDD@_TD@dDD@^xND@gND@iND@^^TD@_sLD@hRD@oXD@^e@D@jND@^^ZD@_jBD@iJD@VD@AD@PD@LD@ND@`LD@BD@iTD@a",
    "RD@sVD@^cHD@^ND@a@D@rVD@gND@^]XD@g@D@@D@^]DD@_oJD@fPD@vZD@a@D@zHD@`VD@^l@D@fHD@`pZD@qHD@aHD@z~WD@drmJD",
    "@d`jGJ@x|WD@^|BD@bMD@^]WD@}JD@aFD@tJD@`RD@^kFD@bCD@aXD@bFD@^hDD@cJD@gJD@^DD@pHD@kDD@^~@D@ND@gHD@aXD@rJ",
    "D@eLD@a[D@fPD@`GD@gLD@aTD@yPD@cHD@`XD@oPD@qLD@hRD@HD@aFD@_dRD@aRD@xZD@zHD@^CD@cFD@o@D@u@D@`hVD@_|OD@eT",
    "D@eVD@tJD@gRD@`VD@mDD@DD@iFD@^FD@^VD@cDD@SD@yHD@^]RD@pJD@jJD@m@D@gZD@tPD@kFD@^wJD@hFD@^{TD@}PD@aZD@^DD",
    "@rFD@aBD@`ED@`XD@ED@^ED@bLD@bVD@xHD@^c@D@sLD@rBD@lVD@_bPD@dJD@eFD@fND@_PD@XD@`LD@^nZD@_l@D@cdcLD@KD@cd",
    "ND@d~b[D@_jZD@_JD@ej_PD@bsND@ofZD@dp|CD@bJaGA_nqGdHEA@FEA@FEB@KdNEB@@FEAqB^@EApC@^MA_tN_tPEA@^EEA@LEAT",
    "VEASQSAdFbBGA^VFE@^CE@^GE@FE@BE@NE@BE@BE@VE@DE@``ADA``@``FDA@BDA`z}XADA@BDA`{]QUDA@BDA@HDAB@DAB@DAB@DA",
    "B@DAB@DAB@GAD@DAB@DAB@DAB@DAB@GAD@GAD@DAB@GAD@DAB@GAD@DAB@DAB@DAB@DAB@DA^MEDAGLDAT@DAR@EA^K_BE@hNE@@E@",
    "TE@@E@@E@@E@FE@@E@@E@@E@DE@@E@@E@@E@KE@@E@@E@@E@JE@@E@@E@@E@KE@@E@@E@@E@`BE@@E@@E@@E@DE@@E@@E@@E@_KE@@",
    "E@@E@@E@AE@@E@@E@@E@FE@@E@@E@@E@BE@@E@@E@@E@LE@@E@AE@@E@DE@@E@KE@@E@^DE@@E@ME@@E@^TE@@E@@E@@E@LE@@E@@E",
    "@@E@HE@@E@@E@@E@CE@@E@@E@@E@RE@@E@BE@@E@@E@@E@JE@@E@BE@@E@@E@@E@EE@@E@@E@@E@^LE@@E@BE@@`T@_SE@@E@@E@@E",
    "@^XE@@E@AE@@E@DE@@E@bUE@c@E@@E@KE@@E@HE@@E@NE@@E@@E@@E@fQE@@EA_M`gNEA@@EA@iLEA@@EA@gAEA@@EA@fBEA@@EA@A",
    "EA@@EA@DEA@@EA@PEA@@EA@@EA@fQEA@@EA@@E@hXE@@E@@E@@EAhW`gXEA@BEA@^TEA@HEA@BEAD_CEA@BEA@BEA@^REA@HEA@BEA",
    "D_CEA@BEA@BEA@^REA@HEA@BEAB_CEA@^VEA@HEA@BEAB_AEA@^TEAB^UEA@^VEAB^UEA@BEA@^TEAJ^UEA@BEA@BEA@^READ^SEA@",
    "^TEAB^UEA@BEA@BEA@^REAB^SEA@^TEAB@EAB^UEA@^VEAB^UEA@^VEAN^UEA@BEA@BEA@^REA@HEA@BEAB_AEA@^TEA@HEA@BEAB_",
    "MEA@JEA@BEA@BEA@^PEA@BEA@HEA@BEAB_CEA@BEA@BEA@^REA@HEA@BEAB_CEA@BEA@BEA@^REA@HEA@BEAB_CEA@BEA@BEA@^REA",
    "@HEA@BEAB_CEA@^VEA@HEA@BEAF_CEA@BEA@BEA@^REA@HEA@BEA^W_TEAB@EA^T@EB`gQ_O`jNEB@B@EB@B@EB@B@EB@B@EB@B_FE",
    "A`eD_GEA@BEA@^JEA@BEA@FEA@BEAD^UEA@BEA@^JEA@BEA@FEA@BEAD^UEA@BEA@^JEA@BEA@FEA@BEAB^UEA@BEA@^JEA@BEA@FE",
    "A@BEA^PAEA@BEABAEA@BEAB_MEA@_BEA@BEA@HEA@BEABIEA@HEA@BEAB_MEA@_DEAB^KEA@BEA@^JEA@BEA@FEA@BEAF_TEABaMEA",
    "@BEA@^JEA@BEA@FEA@BEA_O_CEA@BEA@BEA@^REA@DEAD^YEA@BEA@BEA@^REA@DEAD^YEA@BEA@BEA@^REA@DEABCEAB^SEA@^TEA",
    "B^UEA@^VEAB^UEA@^VEAJ^UEA@BEA@BEA@^READ^SEA@BEA@^REAB^UEA@BEA@BEA@^REAB^SEAB^TEAB^UEA@^VEAB^UEA@^VEAN^",
    "UEA@BEA@BEA@^REAB^SEA@^TEAB^UEA@BEA@BEA@^PEA@BEAB^UEA@BEA@BEA@^REA@DEAB^YEA@BEA@BEA@^REAB^UEA@BEA@BEA@",
    "^REA@DEAB^YEA@^VEA@`BEAFaWEA@BEA@BEA@^REA@DEA_OCEA@DEADCEA@DEADCEA@DEABCEA@DEAPCEA@DEABCEA@DEA^BEEA@BE",
    "AB@EAD@EA@DEAHCEA@DEBSN`jNEB@B@EB@B@EAQMEA@BEADAEA@BEABAEA@BEAMAEA@BEABAEA@BEAMAEA@BEAAAEA@BEADAEA@BEA",
    "NAEA@BEABAEA@BEAC_CEA@BEA@BEA@^REA@^KEAA@EAD@EAB@EAB^TEA@BEADAEA@BEABAEA@BEAMAEA@BEABAEA@BEAMAEA@BEAAA",
    "EA@BEADAEA@BEANAEA@BEABAEA@BEAC_CEA@BEA@BEA@^REA@^KEAA@EAD@EAB@EACIEA@BEA@BEA@^REAADEAB@EAFCEAG^UEA@BE",
    "A@BEABCEA@BEA@BEAF^REAB@EA^ELEA@@_CBF_E`iREB@B^UEB@@@EB@@^VEB@B@EB@^R^UEB@@BEB@@BEBD@AEB@@@EBB@_BEB@@A",
    "EBL^S_AEB@ABEB@@_@EB@^V^[EB@@@EB@@AEB@@^VEB@@@EBD^S^SEB@@@EB@^T^TEBA^S@EB@@@EB@AJEB@^V^[EB@@@EB@@^REB@",
    "@@EBD^SHEB@BGEB@@@EBB^R^SEB@@@EB@@^TEB@@JEBD^UIEB@^V@EB@@@EB@@HEBB@GEB@@JEB@@AEBN^QGEB@@@EBB^R^SEB@@^T",
    "EBD^S@EB@@JEB@@AEB@A_AEB@@@EB@D^VEB@@@EB@^R^SEB@@@EBB^SAEB@@^VEB@@JEB@A_AEB@@^TEB@D^UEB@@^VKB@C^QEBD^V",
    "CEB@@^VEBA^S@EB@@HEB@AGEB@@@EB@@HEB@^VBEB@@AEBH@GEB@@@EB_K^QJEBDC@EB@@AEB@DBEB@@AEB@^RBEB@@AEBD@BEB@^S",
    "AEB@^T@EBN^Q@EBDABEBA@@EBD@@EB^@A@EB@^V@EBL^S@EB@A@EB@^V@EBI@@EBE@@EBH^S@EBG^T_AEBD^S^TEBU^TJEBT@@EBF^",
    "U_AEBAD_BEBACIEBA^V@EBB^U@EBD@^SEB^WB_BEBBA@EB^T@@EBG^V@EB^U^S@EB^Z^TIEBS^U@EBG^V@EBC^QJEB^JC@aMB^E^Tf",
    "TEBZ@@EC^Y@gC`iVEC@A^[^OEC_D^O_BCEC^C^RW^PECG^E^BAECP^FDFEC^B^EKCEB^I^FJEQ@@@_H`gN`iP`iP`iV_H`hV`iP`j@",
    "`iV_H`iX`hJ`iP`iREGQ@`gQ`eP_B_A@@ECJfT`eF^T_F@`eAE@vuRE@BE@vtSE@BE@^WE@_DE@vuVE@BE@epM_O@AE@^EE@AE@n^S",
    "E@@E@`YE@BE@bXE@DE@vqFE@BE@IE@BE@ME@BE@EE@BE@FE@BE@BE@BK@vsGE@DE@naZE@@E@@E@@E@naUE@@E@@E@`QE@vuRE@vuM",
    "H@ZE@AE@JE@_CE@ncFE@nbSE@BE@bXE@DE@vqFE@BE@vwSE@FE@HE@BE@DE@^BE@DE@AH@_FE@`[E@BE@^ZQA_G`jBEA`g@@EA`f[B",
    "HA@BHA@BEA`g@@EA`f[BEA`g@@EA`f[BEA`g@@EA`f[BEA`g@@EA`f[BEA`g@@E@_EE@BE@@E@BE@@E@BE@@E@BE@@E@BE@@E@@E@@",
    "E@BE@@E@BE@@E@@E@@E@BE@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@BE@@E@BE@@",
    "E@BE@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@",
    "E@NE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@@E@@E@BE@@E@BE@@E@BE@@",
    "E@@E@@EAK`gDEA@@EA@BEA@@EA@DEA@@EA@DEA@@Q@`gEE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@BE@BE@BE@BE@s_FE@BE@`mPE@TE@BE@WE@nXE@QE@bUE@DE@DE@DE@DE@aDE@DE@DE@_OE@aBE@cKE@DE@DE@DE@DE@BE@",
    "DE@DE@DE@DE@DE@DE@DE@DE@DE@DE@DE@FE@DE@DE@DE@BE@BE@BE@BE@BE@FE@FE@FE@FE@FE@BE@BE@BE@BE@DE@DE@DE@BE@BE@",
    "BE@BE@BE@DE@HE@cKE@BE@kLE@`QE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@",
    "BE@BE@BE@BE@BN@BE@BE@BE@BE@BE@BK@BE@BE@BE@BE@BE@BK@BE@BE@BE@BE@BE@BK@BE@BE@BN@wdME@BE@RE@FE@QE@AE@ndLH",
    "@_hNE@^y[E@BE@BE@BE@_cBE@`Bc`W@oxQE@BE@^^AE@|BE@a[H@bTE@_svZE@_svUE@AE@bOE@BE@krXE@krUE@LE@bJE@aYE@CE@",
    "CE@aFE@wOE@wRE@`UE@_BE@_TE@BE@aME@dogXE@a|nGE@_qxKE@dogVE@doeME@doePE@dp`OE@xHE@BE@^_[E@^`FE@dogDE@dof",
    "YE@BE@DE@_XE@CE@_svVE@_svSE@_EE@soJH@snWE@^HE@BE@SE@lKE@BE@BE@dotLE@^LdbLA`f_Iagt@FAD@^QAT@kAAg@dVCAB@",
    "^tXA^aB^aFCA@^V^bIAwLvJCA@SFA@Zx@AoFnHCAB@_xSA^zT^{Baio[A_|^@_|_JDAB@DANRDA@BDA@BDA@BDA@BfJAcLYDAB@DAB",
    "RDAB@DAABDAB@^xV@dihQE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@NE@B",
    "E@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAE@BE@BE@BE@BE@BE@BE@BE@BE@",
    "BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@NE@BE@BE@BE@BE@BE@BH@DE@BE@BE@BE@BE@BE@BE@BE@BE@BE@",
    "BE@BE@BE@BE@BE@BE@BE@BE@aAE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE",
    "@NE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAH@DE@BK@FK@FE@BK@FE@B",
    "E@BE@BH@DE@BE@BE@BE@BE@BE@BE@BE@NE@BE@BE@BH@DH@DE@BE@BE@BE@BE@BE@BH@DE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@a",
    "AE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@NE@BE@BE@BE@BE@BE@BE@BE@",
    "BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAE@BH@DE@BE@BE@BK@FE@BE@BE@BE@BE@BE@BE@BH@DE@BE",
    "@BE@BE@BE@BE@BH@PE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAE@BH@D",
    "E@BE@BE@BH@DE@BE@BE@BE@BH@DN@HE@BE@BE@BE@BE@BE@BH@PE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@BE@BE@BE@BE@BE@BE@aAE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@",
    "BE@NE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAE@BE@BE@BE@BE@BE@BE",
    "@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@NE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE",
    "@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@BE@NE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAE@BE@BE@BE@",
    "BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@NE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@",
    "BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE",
    "@BE@BE@BE@BE@BE@BE@NE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@aAE@B",
    "E@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@NE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@jBE@oTK@uTE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@bZE@bUE@BE@BE@BE@BE@BE@BE@mhHE@mgSE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@B",
    "E@BE@BE@BE@BE@meRE@mbME@_OE@_FE@^YE@_@E@^YE@aYE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@bZE@bU",
    "E@BE@BE@BE@BE@BE@BE@mhHE@mgSE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@",
    "meRE@mbME@_OE@_FE@^YE@_@E@^YE@aYE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@bZE@bUE@BE@BE@BE@BE@",
    "BE@BE@mhHE@mgSE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@meRE@mbME@_OE@",
    "_FE@^YE@_@E@^YE@aYE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@bZE@bUE@BE@BE@BE@BE@BE@BE@mhHE@mgS",
    "E@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@meRE@mbME@_OE@_FE@^YE@_@E@^Y",
    "E@aYE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@bZE@bUE@BE@BE@BE@BE@BE@BE@mhHE@mgSE@BE@BE@BE@BE@",
    "BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@meRE@mbME@_OE@_FE@^YE@_@E@^YE@LE@BK@^~EE@B",
    "E@BE@BE@BE@BE@BE@BE@BE@BE@QE@BE@BE@BE@BE@BE@BE@BE@BE@BE@QE@BE@BE@BE@BE@BE@BE@BE@BE@BE@QE@BE@BE@BE@BE@B",
    "E@BE@BE@BE@BE@QE@BE@BE@BE@BE@BE@BE@BE@BE@BnvQ@`cLE@BE@HE@FH@^VE@^OE@IE@TE@^JE@ME@BE@BE@BE@^IE@LE@PE@WE",
    "@ZE@^EE@FE@SE@BE@FE@DE@LE@DE@DE@`TE@bLE@^UE@`OH@bAE@HH@^ZK@^WH@_BE@ME@BE@BE@BE@^IE@LE@PE@WE@ZH@[E@SE@B",
    "E@FH@PH@HW@[Q@BH@_BH@KH@DE@^IE@LH@GE@ZH@[K@KH@PH@HH@fDH@bIH@bAE@HH@^ZK@^WE@TE@^JE@MH@DE@BE@^IE@LE@PE@W",
    "E@ZH@[E@SE@BE@FH@PE@DE@DE@`TH@`RH@eSE@BE@HE@FE@^TE@BE@^OE@IE@TE@^JH@KE@BE@BE@^IE@LE@PE@WE@ZE@^EE@FE@SE",
    "@BE@FE@DE@LE@DE@DT@^GE@HE@FH@^VE@^OE@IE@TE@^JH@KE@BE@BE@^IE@LE@PE@WE@ZE@^EE@FE@SE@BE@FE@DE@LE@DE@D^yIA",
    "`eK`HEA@CEAB@EAB@EAB@EAB@EAB@EAB@EAB@EAB@EAB@TB^E^N_ZEB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B",
    "@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EB@B@EBvwHMvwHE@vuIE@^BEA^AaXEA",
    "^L^PH@^OE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BE@BEA^GcDEAJ@EAL^GEA@^",
    "BEBEEcDEANY_[AS@EA@BEA@^@`ZAQOiBAv|RvxVEAa@dLE@D^P@wsTE@`vCE@a^YE@oyIE@m]JE@bt@E@weBE@wc[E@bsIE@irLE@b",
    "|FE@ccWE@giWE@daFE@dnYE@gyFE@gnYE@tcZE@aiUE@isLE@xxUE@_oEE@klBE@cuME@jTE@hmAE@RE@^^rNE@x`KE@elME@``PE@",
    "e`TE@sxNE@tcIE@ilXE@nVE@qs[E@ke@E@a]ME@AE@drBE@otME@^vTE@}^RQB^ofU^rmPvzFEB@jnQ@EB@fJ@EB@c~N@EB@hjL@EB",
    "@dvG@EB@h^D@EB@phW@EB@f|X@Z@voVE@cfCdv[@^h^IE@BE@BE@BE@BE@BE@BE@BE@BE@Bb~gV@^d}PD@ID@RD@cz{BD@czfOD@bP",
    "D@ZD@bBD@ePD@_FD@bPD@^SD@lbMD@dik@D@c{~MD@ND@^DD@^JD@c{gBD@dhvQD@lkLD@_TD@c{hXD@c{hCD@ZD@^n[D@^oPD@RD@",
    "f`zPD@f`u[D@^@D@lsWD@lwXD@VD@`DD@JD@lxGD@l~@D@DD@^ZD@^PD@VD@BD@^FD@`PD@PD@RD@^VD@TD@DD@@D@@D@c||ND@cmi",
    "GD@ljWD@^ND@c}iXD@c}h[D@LD@^ND@gXD@dGD@^DD@_HD@aDD@c@D@^XD@aVD@^DD@_JD@@D@^ND@^HD@PD@^BD@uHD@pKD@pND@k",
    "CD@_ND@_iYD@`uFD@qOD@_TD@^VD@fGD@hZD@AD@eVD@d]{XD@d]vWD@JD@^BD@^LD@PD@aPD@d^mDD@aTD@d^g[D@`JD@XD@bQD@g",
    "DD@p_OD@^@D@pjDD@`XD@@D@d_bHD@d^zUD@^ND@^BD@XD@d_mJD@d_lMD@ND@^wJD@^uID@ptUD@pyFD@^@D@bXD@`QD@d`sND@d`",
    "fMD@d`fRD@d`cOD@ED@^FD@dFD@BD@qfID@qhHD@`BD@^ND@`DD@qlID@dv_BD@dv]ED@qoPD@FD@FD@^LD@fci@D@fceGD@dbcVD@",
    "@D@cqiOD@ovQD@@D@qrID@e]`ND@vhXD@eatKD@RD@quOD@qxZD@`RD@TD@_LD@fTD@raED@_CD@rdTD@dcgHD@dccQD@fFD@HD@DD",
    "@CD@`HD@^LD@_PD@[D@VD@`JD@^LD@HD@^XD@VD@aTD@c@D@_ND@eXD@dd`LD@ddaUD@aQD@dTD@^ZD@cZD@ddfFD@ddaUD@cQD@^[",
    "D@sgMD@suFD@^ND@_FD@_SD@sqUD@t_FD@_BD@desDD@dejQD@pVD@iMD@tdSD@tiXD@tkAD@_OD@icTD@FD@hnRD@dCD@k]RD@}uG",
    "D@o}LD@HD@LD@aJD@UD@dfrLD@d~gSD@u^FD@eID@kRD@`RD@dfhTD@dfhAD@dYD@nND@ulID@uoRD@cZD@bBD@jPD@dfjBD@dffKD",
    "@vbAD@vgBD@dgdHD@dg`QD@vfWD@vi@D@`FD@^ZD@BD@dg|@D@lzOD@m`JD@dgyGD@dhwLD@dhoID@^@D@dGD@iND@_XD@aBD@`WD@",
    "_XD@^BD@ZD@dhhFD@dhm[D@nZD@aND@wmED@wsXD@GD@dhpHD@dh~[D@wRD@dhnLD@`LD@dhkOD@eFD@^YD@ED@xbUD@xfDD@`RD@K",
    "D@`XD@cjo@D@cjdCD@dib@D@dh}UD@disFD@diiED@ZD@^ZD@djoPD@djlCD@^ND@dk^DD@lZD@dk]SD@^FD@ykUD@ymRD@ylUD@@D",
    "@yxJD@^ND@^ND@^LD@aZD@yzQD@z_BD@dlhXD@dlf[D@dlmPD@dli[D@cwfRD@cv}ED@dmtND@^RD@g@D@ei`[D@XD@zoHD@dm|JD@",
    "AD@_VD@^XD@dm}YD@BD@@D@`BD@zqYD@zvPD@zuQD@bTD@ejzJD@dn{MD@aLD@aPD@{_ID@ekxBD@dokWD@dotDD@`BD@dosCD@cPD",
    "@{nKD@{tND@TD@JD@dpuBD@rJD@@D@dq]AD@{qWD@enbND@dq`ED@FD@{~WD@enoBD@dp~GD@|gCD@|hTD@ID@_BD@drnHD@drgED@",
    "|jOD@|qTD@aFD@aVD@|wAD@eq]HD@_FD@ep~WD@eqgHD@dr}UD@dsc@D@dsaAD@dFD@VD@dsvND@bFD@dsuED@ds~TD@ds}OD@cz|B",
    "D@dynGD@}uZD@bVD@}wWD@}|BD@quQD@egh@D@^@D@y^GD@RD@czcUD@FD@dgTD@^clAD@~kLD@KD@^HD@vwCD@vxPD@DD@TD@_ZD@",
    "durPD@durQD@a@D@b@D@bHD@fWD@h@D@`@D@e@D@oOD@eND@DD@^DD@durXD@sBD@gSD@eutOD@^]gDD@DD@_ND@dy_@D@dx{KD@dv",
    "k@D@evyUD@HD@ewa@D@qRD@ewtYD@^]{RD@XD@VD@DD@aPD@_ID@fPD@`CD@gVD@bUD@aVD@^ZD@^^hAD@^^nPD@_HD@^^nKD@^^uF",
    "D@FD@dxtLD@dxlCD@ND@^^yYD@^^{ZD@^hgMD@fb{VD@jDD@e{qOD@RD@^_mRD@bND@hFD@kND@dy|RD@dyvMD@^PD@cLD@cPD@dzt",
    "DD@^{`AD@b~kAD@^AD@`TD@b~x@D@b~gSD@dDD@d}gLD@^ZD@d|rMD@cRD@_HD@d}^ND@d}]UD@qJD@hJD@BD@cOD@xFD@_@D@d~]B",
    "D@d}dID@^cy[D@^c}DD@d}|LD@fbtUD@^dhND@{tMD@{{JD@e]d@D@lFD@fd{WD@PD@^drPD@e^gDD@fexKD@ff`LD@e^nAD@@D@_D",
    "D@e_^ND@e^sGD@^dwMD@^d|PD@f@D@^ZD@aHD@^e^SD@fi^XD@e`kKD@rPD@jND@^faED@_FD@^ffPD@ebcND@fklGD@fkpFD@oZD@",
    "fJD@ebkKD@^fwID@^f{VD@JD@ND@TD@ND@_RD@ed]B^nEc[@cZC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC",
    "@BC@BC@BC@BC@BC@BC@BC@BgZ@dHC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BF@DC@BC@",
    "BC@BC@BC@BC@B`R@FF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DFAkC^rJF@kLF@DF@",
    "DI@FF@DF@DF@DF@DF@DF@DF@DI@FF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@eOC@eV",
    "F@DF@DL@lFC@kWF@DF@kVC@kOF@kTC@BC@kMI@bVC@eXC@DC@kIF@kTC@FF@LC@AC@kUL@lHC@FF@FC@lCF@DF@DF@lRC@lKF@lRI@",
    "lGF@lRC@lKF@lPC@BC@lIF@DF@lTC@lML@HX@RC@@F@FC@@F@FC@@F@DF@DF@DF@DF@DF@DF@DF@DI@FF@DF@DF@DF@DF@DF@DF@DF",
    "@DI@HC@@F@DF@cWC@`@C@aDF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@fEF@fNF@DF@DF@DF@DF@",
    "DF@DF@DF@DX@stPC@ssYF@hOC@t]PI@ssOF@jWC@oZC@FC@aYF@DF@DF@DF@D|B@qTF@DL@H[@eXU@bAF@BC@BC@BF@_BF@BC@BF@_",
    "AC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BF@DC@BC@BC@BC@BC@BC@BC@BC@B`X@X[@DF@DF@DF@DF@DF@DF@DF",
    "@DF@DF@DF@DF@DR@`YI@aPF@KC@RI@fCC@BC@BC@lBC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@`IC@BC@BC@BC@",
    "BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BbG@^HF@DF@DF@DF@DF@D",
    "F@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@D^B@TF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@",
    "DF@DF@DF@DF@DF@^DC@YF@DF@DF@DF@DF@DF@DI@FF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF",
    "@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DI@`PC@BC@BC@BC@BC@BC@B",
    "C@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@Bf`R@rdXC@",
    "BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@",
    "BC@BC@BF@DR@L_fM@^~{VC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B",
    "C@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B",
    "C@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@_jrIC@BC@BC@BC@BC@Bc}A@^uAC@BC@BC@BC@BC@BC@BC@",
    "BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@",
    "BC@BI@FC@BC@B^]K@c~XF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF",
    "@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF",
    "@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@D^B@l~GF@m]DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@",
    "DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@D^B@BC@BC@BC@BC",
    "@BC@BC@BC@B[@RC@BC@BC@BC@BC@B^E@VC@BC@BC@BC@BC@BC@BC@B[@RC@BC@BC@BC@BC@BC@BC@B[@RC@BC@BC@BC@BC@B^H@XF@",
    "DF@DF@D[@RC@BC@BC@BC@BC@BC@BC@B_S@^VC@BC@BC@BC@BC@BC@BC@B[@RC@BC@BC@BC@BC@BC@BC@B[@RC@BC@BC@BC@BC@BC@B",
    "C@B[@RC@BC@aQC@BC@aT^H@aQC@BC@BC@BC@bP^H@ZC@BC@cMC@B^K@dNC@BC@dIC@BC@dP^H@dUC@BC@FC@BC@eL|Z@la[L@^xOC@",
    "eTU@nkRaZ@_LC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B_D@J_pU@^wHC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC",
    "@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BbxG@`|BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B",
    "C@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BbG@DF@spGC@kp@C",
    "@knSI@soNF@DF@DF@srYC@_HC@_IC@DF@ssJI@F[@stYC@BC@suRF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@",
    "DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@D[@RF@",
    "DO@J_zzF@^|eDF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@D_D@^LF@DF@DF@DF@DF@DF@D",
    "F@DF@DF@DF@DF@DF@DF@DkP@fTF@DF@DF@DF@DF@DF@DL@HF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF",
    "@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@DF@D^E@VF@DF@_cdQC@_cdXF@DF@DF@DF@DO@JF@_qxYI@_qyHF@DL@HF@DF@DF@DF@DF@D",
    "F@DF@DF@DF@DF@_qzYC@SC@JC@VC@CF@`TC@^QC@^PC@_sv@C@^}CF@DF@DF@DF@DF@DF@DF@DF@`IC@_qwKC@koPC@_chPF@DU@NR",
    "@LF@D`C@_B__h@@^i}FC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B`yZ@_pXC",
    "@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC",
    "@BC@BC@BC@BC@BkS@fVC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@",
    "BC@BC@BC@BC@BC@BC@BC@BmW@hDC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BF@DC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B",
    "F@DC@BC@BC@BC@BC@BC@BF@DC@BbpU@`wHC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@",
    "BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BfrF@chXC@BC@BC@BC@BC",
    "@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B_]~G@^h~NC@BC@BC@BC@BC",
    "@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B_{|O@^|}NC@BC@BC@BC@BC",
    "@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@BC@B}P_kH@mLC@@C@@C@",
    "@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@DC@WC@@C@@C@@C@XC@^CC@HC@@C@@C@@C@@C@^GC@@C@^HC@",
    "@C@@C@@C@^GC@@C@^HC@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@lQC@@C@@C@@C@@C@lRC@@C@@C@@C@TC@@C@@C@@C@@C@@C@@C@@C",
    "@TC@SC@SC@@C@@C@TC@@C@@C@SC@@F@TC@@C@@C@SC@@C@@C@@C@TC@DC@WC@@C@TC@FC@BC@@C@AC@BC@@C@AC@EC@@C@@C@@C@@C",
    "@@C@@C@@C@@C@@C@@C@@C@@zP@@C@@C@@C@@C@@yN@SC@TC@@C@@C@@C@SC@TC@@C@@C@OC@CC@TC@@C@@C@@C@@C@@C@SC@@C@@C@",
    "@C@@C@@C@TC@@C@SC@TC@@C@OC@LC@DC@lSC@BC@BC@BC@BC@BC@BC@BC@BC@BC@@C@BC@BC@BF@BF@BC@BF@kRC@SF@kKdW@lDC@@",
    "C@@C@@C@@C@@C@@C@@C@kGC@BC@BbG@IC@BC@BC@BC@BC@BC@BC@BC@k@C@@C@SC@@C@TC@@C@@C@@C@@C@SC@TC@@C@S^W@jEgZ@j",
    "ZC@@C@@C@@C@@C@@C@@I@@C@@C@@C@@C@SC@TI@@C@@F@SC@TC@@C@S`X@jC`I@jXC@SC@TC@@C@SC@TC@@C@SC@@C@@C@TC@SC@@C",
    "@TC@SC@TC@@C@@C@SC@TC@SC@TC@SC@TC@SC@TC@@nG@@C@@C@@C@@C@@C@@C@@C@SC@T^B@S_S@TC@@C@@C@@F@@C@@C@@C@@C@@C",
    "@@C@@C@@C@@F@@C@@C@@F@@C@@C@@C@@C@@aT@SC@@C@@cO@TC@SC@@C@@C@TC@@C@@C@@aQ@@C@@C@@C@@C@@C@SC@@C@@C@@C@@C",
    "@TC@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@F@SC@TC@@C@SC@TC@@C@SC@TC@@C@@C@SC@@C@@C@jUC@BC@BC@kJC@@C@@C@",
    "SC@TC@@C@SC@@C@TC@@C@@C@@C@@cO@lY^W@DL@lVC@SC@TC@@hD@lY^W@DbG@lVcR@lY^W@DhY@C^W@DhY@C^W@DjT@@hY@C^W@DX",
    "@bJC@NgZ@b[^W@DhV@@C@@^W@@jK@@hV@cTC@@C@cS^N@d@C@@C@@C@@hS@VC@@C@dU^N@eBC@@C@@C@@eG@d@C@@`@@@F@@F@Gc@@",
    "cEC@BF@DR@CC@@C@@C@@I@@F@dDC@@C@lUF@lVC@@cU@SiC@lEF@DC@@eY@lB_fD@TC@@C@@_~S@lUC@@`I@@mZ@@^E@lVrX@ClL@K",
    "C@PC@StP@TC@SdT@lA_G@lVC@@C@@C@@C@@C@@C@@C@@I@SbG@TC@@C@@C@@C@@C@SC@@C@@C@@C@@C@@C@TC@@C@SF@@C@@C@TC@@",
    "C@SC@@C@TC@@C@@C@@C@@C@SC@TC@@C@@C@@gZ@lY^T@DaE@lVC@SC@TC@@C@@C@@C@@C@@C@@bY@lUC@@cI@C^H@DC@@dH@CmK@lZ",
    "C@@C@@F@mIC@lRC@@C@@C@@C@@C@TC@@C@SC@@C@@C@@C@TF@mIC@@C@@C@@C@@C@@C@@O@lRU@TL@@C@@rI@@C@@C@SC@TC@@C@@C",
    "@@C@@C@@C@@C@SC@TC@@C@HC@^KC@LC@^GC@_@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C",
    "@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@DC@GC@@C@OC@CC@XC@FC@YC@TC@S_fG@TC@@C@mIC@@C@mJC@@C@@C@@",
    "C@mIC@@C@@C@mJC@@O@@L@mIC@@C@mJC@SC@TC@mIC@@C@lRC@@C@@C@@C@TftA@@C@@C@@lF@lUgK@lVC@@C@@C@@C@@C@@C@@C@@",
    "C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@^vM@WC@TC@HC@SC@DC@@hJ@lKC@@_x",
    "^[@lXO@@C@@C@@C@@C@@C@@C@@C@@C@@C@@`O@@C@@eS@@C@@zS@lUaB@@mH@@`@@lVC@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@",
    "@C@@C@@C@@C@@C@@cF@SC@@C@@aB@lAgH@C^K@DvT@lVF@@C@@C@SI@TC@@R@@C@@F@@bS@lUwM@@^z{C@^F_kN@kPC@@C@@C@@C@@",
    "C@@C@@C@SC@@C@@C@@C@@C@@C@@C@TC@@`_J@SuI@@mB@TC@@C@@C@@C@@bgI@SF@TaK@@C@mIC@lRO@lAnV@lVC@S^xN@TC@@C@@C",
    "@@^dP@@C@@mN@SC@@C@TC@@C@@C@SC@TC@SC@@C@@C@@bJ@TC@SC@TC@SqS@lAaN@@^Q@@cF@@C@CdN@lZC@@C@@bG@lUC@@cU@CeG",
    "@D^B@ChM@DC@CpE@@C@DeS@CC@@^W@D_S@lVC@@C@@C@@C@@C@@C@@L@@C@@C@@C@@C@@sB@lUL@C_P@lZgT@lUC@Cx@@DC@CjQ@Di",
    "U@@C@CiL@DyZ@@C@CxU@DC@@O@CmW@Df@@@_A@@eV@@^hF@@xU@CF@DC@@eV@@^yjO@OC@@C@@C@@C@@cL@mJC@@C@@C@@C@@C@@C@",
    "@`xR@l[C@@^xzC@ImvY@lJC@@C@lIC@@C@@L@mBC@SC@@C@@C@@C@@[@HC@@C@@C@@C@@C@@C@@C@@I@TC@@C@@C@@C@@C@SC@@`I@",
    "TC@@C@@C@@l[@@C@@C@@h_T@@C@@C@@C@@C@@C@@C@@F@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@C@@I@@C@@C@",
    "@C@@C@@C@@C@@F@@C@@F@@C@@C@@C@@C@@yB@@C@@C@@C@@C@@C@@C@@^cH@@cR@@C@@C@@C@@avG@SC@@C@@C@@C@@C@@C@@hV@TC",
    "@@C@@C@@C@@C@@C@lY",
};

typedef struct Unpacking {
    const char *next;
    Mappings *mappings;
    Mapping *rows;
    uint32_t n_chars;
} Unpacking;

static uint32_t take(Unpacking *from) {
    uint32_t value = 0;
    unsigned char c;
    while ((c = (unsigned char)*from->next++) > '[' || !c) /* 0 ends a line */
        if (c) value = value * 34 + c - ']';
    return value * 28 + c - '@';
}

static void mark(Mappings *mappings, uint32_t code) {
    mappings->changes[code / 64 / 64] |= (uint64_t)1 << code / 64 % 64;
}

static MappingTable unpack_table(Unpacking *from, bool marks) {
    Mappings *mappings = from->mappings;
    MappingTable table = {from->rows, take(from)};
    uint32_t code = 0, before = 0, n_before = 0; /* the characters of the row before */
    for (size_t i = 0; i < table.n; i++) {
        uint32_t head = take(from), n = take(from) + 1, *chars = mappings->chars + from->n_chars;
        code += head / 3;
        *from->rows++ = (Mapping){code, from->n_chars, (uint8_t)n, head % 3 == 2};
        for (uint32_t k = 0; k < n; k++) {
            uint32_t step = take(from);
            chars[k] =
                (k < n_before ? mappings->chars[before + k] : 0) + (step & 1 ? ~(step >> 1) : step >> 1);
        }
        if (marks) mark(mappings, code);
        if (marks && head % 3 == 0 && n == 2) {
            uint64_t pair = (uint64_t)chars[0] << 32 | chars[1];
            mappings->compositions[mappings->n_compositions++] = (UnicodeComposition){pair, code};
            mark(mappings, chars[1]);
        }
        before = from->n_chars, n_before = n;
        from->n_chars += n;
    }
    return table;
}

static int compare_pairs(const void *a, const void *b) {
    uint64_t x = ((const UnicodeComposition *)a)->pair, y = ((const UnicodeComposition *)b)->pair;
    return (x > y) - (x < y);
}

Mappings *mappings_new(void) {
    Unpacking from = {.next = packed[0]};
    size_t n_rows = take(&from), n_chars = take(&from), n_compositions = take(&from);
    Mappings *mappings = calloc(1, sizeof *mappings + n_compositions * sizeof(UnicodeComposition) +
                                       n_rows * sizeof(Mapping) + n_chars * sizeof(uint32_t));
    if (!mappings) return NULL;
    from.mappings = mappings;
    mappings->compositions = (UnicodeComposition *)(mappings + 1);
    from.rows = (Mapping *)(mappings->compositions + n_compositions);
    mappings->chars = (uint32_t *)(from.rows + n_rows);
    mappings->decompositions = unpack_table(&from, true);
    mappings->lower = unpack_table(&from, false);
    mappings->classes = unpack_table(&from, true);
    for (uint32_t code = HANGUL_FIRST; code <= HANGUL_LAST; code++) mark(mappings, code);
    for (uint32_t code = HANGUL_VOWEL; code < HANGUL_TAIL + HANGUL_TAILS; code++) mark(mappings, code);
    qsort(mappings->compositions, n_compositions, sizeof(UnicodeComposition), compare_pairs);
    return mappings;
}

const Mapping *mapping_find(MappingTable table, uint32_t code) {
    size_t low = 0, high = table.n; /* rows[low − 1] ≤ code < rows[high] */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table.rows[middle].code <= code)
            low = middle + 1;
        else
            high = middle;
    }
    return low && table.rows[low - 1].code == code ? &table.rows[low - 1] : NULL;
}

uint32_t mappings_compose(const Mappings *mappings, uint32_t first, uint32_t second) {
    if (first - HANGUL_LEAD < HANGUL_LEADS && second - HANGUL_VOWEL < HANGUL_VOWELS)
        return HANGUL_FIRST + ((first - HANGUL_LEAD) * HANGUL_VOWELS + second - HANGUL_VOWEL) * HANGUL_TAILS;
    bool is_open =
        first - HANGUL_FIRST <= HANGUL_LAST - HANGUL_FIRST && (first - HANGUL_FIRST) % HANGUL_TAILS == 0;
    if (is_open && second - HANGUL_TAIL - 1 < HANGUL_TAILS - 1) return first + second - HANGUL_TAIL;
    UnicodeComposition key = {.pair = (uint64_t)first << 32 | second};
    const UnicodeComposition *found =
        bsearch(&key, mappings->compositions, mappings->n_compositions, sizeof key, compare_pairs);
    return found ? found->code : 0;
}
