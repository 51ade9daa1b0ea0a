"""The milvus backend: the indexes of `bm25` and `dense` live in a Milvus server, or in a milvus-lite folder.

The catalogue, the texts and the table of chunks stay on this machine, and so do the indexes of all other retrievers.
One collection holds one index (layout, retriever). Its rows are written once and never changed:

    id        version << 24 | number of the chunk in its document
    version   the number of the document's version in the catalogue
    first     the first set of documents that the version was written for
    acl       hashes of the groups in the document's own access list
    under     hashes of the document's path and id, and of every folder above them
    tags      hashes of the document's metadata, one of each key and value
    vector    the sparse weights of BM25, or the encoder's vector

A set of documents is the rows with `first` up to its number, except the versions that it no longer has; a `Record` on
this machine knows which. An alias says in which collection a set is, and it is made when every row was counted there.
So a set becomes visible at once, and earlier sets stay searchable. A collection is written again when the expression
of a set would become long, or when the average length of chunks has moved away from the one in BM25's weights
(`words.DRIFT`).
"""
