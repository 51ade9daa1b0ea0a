"""What passages say about the same things: entities, relations, links, walks and communities.

    chunks ──facts──> Facts ──derive (of the chunks allowed)──> Graph ──> walks, neighbourhoods, communities

Facts are read from each chunk alone, so a changed document costs the reading of its own chunks. A graph is derived from
the facts of a set of chunks and nothing else: the graph of a caller who may not read a document is the graph that would
stand if the document did not exist.
"""
