"""Studies: repeats the tables of a published study on your own documents, beside the figures that the paper printed.

A study is a module of `surefind.lab.study.studies`; its file name is its name (`context_layer.py` is `context-layer`).
It has one constant, `STUDY`, a `Study` made of stages:

    STUDY = Study(title, source, (Stage("search", measure, tables, contenders), …))

    contenders(context, before)      the configurations that the stage compares. `before` holds the results of earlier
                                     stages by name, so that a stage can take the winner of the one before. When a run
                                     is quoted, stages that have not run yet are missing in it: use a default then.
    measure(context, before, allowed)
                                     runs one collection and returns the result as plain data (JSON). `allowed` are the
                                     contenders that may run; without a language model, those that ask one are left out.
    tables                           the tables as data (`tables.TableSpec`): rows, columns, the source of each cell,
                                     the paper's figures and claims. `filled` makes the table from the results.

`run.run_study` calls these. It stores a result as soon as its stage ends, by everything that it depends on: documents,
questions, configurations with the fingerprints of their models and prompts, options, and the results before it. So a
stopped run continues where it stopped. It also adds to each result the names that were left out, with the reason
(`result["left_out"]`), and `values.Table` shows them. A result with `problems` (models that failed), or with
`"provisional": True` (something is not installed), is shown but not stored.

`context.RunContext` is what a stage uses: the knowledge base, the exam, the options, `contenders`, `score` and
`latency`.
`scores.summary` turns scores into plain data, and `scores.judge` says whether a collection agrees with a claim.
"""
