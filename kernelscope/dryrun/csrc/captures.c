/* A capture's nodes and its end. */
#include "driver.h"

#include <stdlib.h>

Node *stream_add_node(Stream *stream, CUgraphNodeType type)
{
    Node *node = node_new(stream->capture->graph, type);
    node_set_add_all(&node->dependencies, &stream->dependencies);
    stream->dependencies.count = 0;
    node_set_add(&stream->dependencies, node);
    return node;
}

void capture_end(Capture *capture)
{
    for (Capture **link = &all_captures; *link; link = &(*link)->next) {
        if (*link != capture) continue;
        *link = capture->next;
        break;
    }
    for (Stream *stream = all_streams; stream; stream = stream->next) {
        if (stream->capture != capture) continue;
        stream->capture = NULL;
        stream->dependencies.count = 0;
    }
    free(capture);
}

void capture_abandon(Capture *capture)
{
    if (capture->owns_graph) graph_free(capture->graph);
    capture_end(capture);
}
