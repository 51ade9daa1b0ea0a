"""The graph that links passages about the same things: entities, relations, links, walks and communities.

    chunks ──facts──> Facts ──derive (of the chunks allowed)──> Graph ──> walks, neighbourhoods, communities

Facts are read from each chunk alone, so a changed document costs only the reading of its own chunks. A graph is derived
only from the facts of a set of chunks: a caller who may not read a document gets the graph as it would be if the
document did not exist.
"""
