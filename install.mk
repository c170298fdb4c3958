# The installed files, and their places. The programs look for the model at ../share/attn, as seen from their folder.
COMPLETIONS = scripts/completions/attn
INSTALLED = $(RUN):$(PREFIX)/bin/attn-run $(STUDY):$(PREFIX)/bin/attn-study $(QUANTIZE):$(PREFIX)/bin/attn-quantize \
    weights/model.gguf:$(PREFIX)/share/attn/model.gguf attn.h:$(INCLUDEDIR)/attn.h \
    $(BUILD)/libattn.a:$(LIBDIR)/libattn.a $(SHARED):$(LIBDIR)/$(notdir $(SHARED)) \
    docs/attn-run.1:$(MANDIR)/man1/attn-run.1 docs/attn-study.1:$(MANDIR)/man1/attn-study.1 \
    docs/attn-quantize.1:$(MANDIR)/man1/attn-quantize.1 \
    docs/attn.3:$(MANDIR)/man3/attn.3 $(COMPLETIONS).zsh:$(PREFIX)/share/zsh/site-functions/_attn \
    $(foreach name,attn-run attn-study attn-quantize,$(COMPLETIONS).bash:$(PREFIX)/share/bash-completion/completions/$(name) \
    $(COMPLETIONS).fish:$(PREFIX)/share/fish/vendor_completions.d/$(name).fish)
PKGCONFIG = $(LIBDIR)/pkgconfig/attn.pc
# A program that is linked with what pkg-config says finds the library again, where the system does not look for it.
RPATH = $(if $(filter /lib /lib64 /usr/lib /usr/lib64 /usr/lib/%-linux-gnu,$(LIBDIR)),, -Wl,-rpath,$${libdir})
LINKS = $(LIBDIR)/libattn.so $(LIBDIR)/$(SONAME)

# Without lines for debuggers: half of the size. STRIP=true leaves them.
STRIP ?= $(shell $(CC) -print-prog-name=strip)

# A list of make's is parted by spaces: a path with one would be another's.
check_paths = $(if $(word 2,$(foreach path,DESTDIR PREFIX LIBDIR INCLUDEDIR MANDIR,$(wordlist 2,99,$($(path)))) x),\
    $(error DESTDIR, PREFIX and the other folders must not have spaces in their names))

install: $(BUILT)
	@$(check_paths)for file in $(INSTALLED); do \
	    from=$${file%%:*} to=$(DESTDIR)$${file#*:} mode=644; if [ -x $$from ]; then mode=755; fi; \
	    echo "install $$to"; install -D -m $$mode $$from $$to || exit 1; \
	    case $$from in \
	    *.a) $(STRIP) -g $$to || exit 1 ;; \
	    $(RUN) | $(STUDY) | $(QUANTIZE) | $(SHARED)) $(STRIP) $$to || exit 1 ;; \
	    esac; \
	done
	for link in $(LINKS); do ln -sf $(notdir $(SHARED)) $(DESTDIR)$$link || exit 1; done
	install -d -m 755 $(DESTDIR)$(dir $(PKGCONFIG))
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(strip $(LIBS))|' -e 's|@RPATH@|$(RPATH)|' attn.pc.in >$(DESTDIR)$(PKGCONFIG)
	chmod 644 $(DESTDIR)$(PKGCONFIG)

uninstall:
	$(check_paths)rm -f $(addprefix $(DESTDIR),$(foreach file,$(INSTALLED),$(lastword $(subst :, ,$(file)))) $(LINKS) $(PKGCONFIG))
	-rmdir $(DESTDIR)$(PREFIX)/share/attn
