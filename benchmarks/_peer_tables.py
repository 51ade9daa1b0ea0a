def tables(work, peers, engines):
    return ""
