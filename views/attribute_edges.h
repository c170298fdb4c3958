/* attribute --edges: the edges between heads, MLPs, embeddings and what reads them. */
#ifndef ATTN_ATTRIBUTE_EDGES_H
#define ATTN_ATTRIBUTE_EDGES_H

#include "views/attribute.h"

extern const AttributeWay attribute_edges; /* its check comes behind that of attribute_gradients */

#endif
