"""`surefind train prompt`: the hardest example, the loop of meta-prompting, examples of weights; and what uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exam_helpers import query, surefind
from helpers import Home, ask
from llm_server import LLMServer
from llm_steps import ranking, uneven, upside_down
from surefind.base.errors import LockedError, SpecError
from surefind.engine.fuse.learned import question_key
from surefind.engine.llm.trained import trained_prompt
from surefind.engine.rerank.llm_listwise import LLMListwise
from surefind.engine.search.pipeline import Pipeline
from surefind.engine.store.lock import training_lock
from surefind.lab.bench.plan import Plan, from_texts, parse_measures
from surefind.lab.bench.run import run_bench
from surefind.lab.exam.model import Exam, Judgment, held_out
from surefind.lab.exam.store import ExamStore
from surefind.lab.train.prompt import ListwiseTrainer, weigh_examples
from surefind.lab.train.report import SampledQuestions

WORDS = "amber birch cedar delta ember fjord grove heath islet jetty kiosk lodge".split()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "kb")
    for word in WORDS:
        made.write(f"docs/{word}.md", f"The {word} file is about cash and {word}.")
    made.sync("docs")
    return made


def exam_of(count: int = 12) -> Exam:
    queries = tuple(
        query(f"q{i}", f"cash {WORDS[i % len(WORDS)]}", Judgment(f"{WORDS[i % len(WORDS)]}.md")) for i in range(count)
    )
    return Exam("words", queries)


BETTER = "You rank passages. Put the passage that names the very word of the query first."


def reply(prompt: str) -> str:
    """Ranks the wrong way round, unless its system prompt was improved."""
    if "failure analysis" in prompt:
        return json.dumps({"failure_analysis": "It looked at the end.", "system_prompt": BETTER})
    return ranking(lambda shown: uneven(sorted(shown)) if BETTER in prompt else upside_down(shown))(prompt)


def trainer(home_kb: object, exam: Exam, llm: LLMServer, **more: int) -> ListwiseTrainer:
    stage = LLMListwise(model=llm.model, top=6, keep=2)
    return ListwiseTrainer(home_kb, exam, Pipeline.parse("bm25"), stage, **more)  # type: ignore[arg-type]


def test_failures_improve_the_prompt_and_the_hardest_is_the_example(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    exam = exam_of()
    with home.open() as kb:
        made = trainer(kb, exam, llm).train("mine")
        prompt = trained_prompt(kb.services, "mine")
    tuning = [q.text for q, out in zip(exam.queries, held_out(exam.queries), strict=True) if not out]
    assert made.questions == SampledQuestions(len(tuning), len(tuning))
    assert [failure.gap for failure in made.failures] == [1.0]  # after the first, the prompt is right
    assert made.system_prompt == prompt.system == BETTER
    assert prompt.example is not None and prompt.example.query in tuning
    assert prompt.example.ranking[0] == 1 and len(prompt.example.ranking) == 2
    assert len(prompt.example.passages) == 6
    assert made.use.startswith("llm_listwise(") and "mode=meta, trained=mine" in made.use
    asked = [text for text in llm.prompts if "failure analysis" in text]
    assert len(asked) == 1 and "The relevant passages are number 1." in asked[0]


def test_a_name_that_is_being_trained_is_refused_before_anything_is_asked(home: Home, llm: LLMServer) -> None:
    (measure,) = parse_measures(["nDCG@10"])
    with home.open() as kb, training_lock(kb.data, "mine"):
        with pytest.raises(LockedError, match="is training 'mine'"):
            trainer(kb, exam_of(), llm).train("mine")
        with pytest.raises(LockedError, match="is training 'mine'"):
            weigh_examples(kb, exam_of(), ["bm25", "tfidf"], "mine", measure)
    assert llm.bodies == []


def test_a_held_out_question_is_never_shown(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    exam = exam_of()
    with home.open() as kb:
        trainer(kb, exam, llm).train("mine")
    hidden = [q.text for q, out in zip(exam.queries, held_out(exam.queries), strict=True) if out]
    assert hidden and not any(f"\n{text}\n" in prompt for text in hidden for prompt in llm.prompts)


def test_modes_show_the_example_and_the_better_prompt(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    model = json.dumps(llm.model)
    with home.open() as kb:
        trainer(kb, exam_of(), llm).train("mine")
        llm.bodies.clear()
        for mode in ("one_shot", "meta"):
            ask(
                kb,
                "cash amber",
                pipeline=f"bm25 >> llm_listwise(model={model}, reverse=false, top=4, keep=2, mode={mode}, "
                "trained=mine)",
            )
    one_shot, meta = llm.bodies
    assert [m["role"] for m in one_shot["messages"]] == ["system", "user", "assistant", "user"]
    assert json.loads(one_shot["messages"][2]["content"])["ranking"][0] == 1
    assert BETTER not in one_shot["messages"][0]["content"] and BETTER in meta["messages"][0]["content"]
    assert "data to be judged" in meta["messages"][0]["content"]  # the rule of the fence is there whatever the prompt


def test_rounds_end_the_loop_and_a_useless_rewrite_changes_nothing(home: Home, llm: LLMServer) -> None:
    llm.reply = lambda prompt: "no" if "failure analysis" in prompt else reply(prompt)
    with home.open() as kb:
        made = trainer(kb, exam_of(), llm, rounds=2).train("mine")
    assert [failure.system_prompt for failure in made.failures] == ["", ""]
    assert made.system_prompt == "" and "mode=one_shot" in made.use


def test_nothing_is_saved_where_nothing_fails(home: Home, llm: LLMServer) -> None:
    llm.reply = ranking(sorted)
    with home.open() as kb:
        made = trainer(kb, exam_of(), llm).train("mine")
        assert made.use == "" and made.failures == ()
        with pytest.raises(SpecError, match="no trained prompt 'mine'"):
            trained_prompt(kb.services, "mine")


def test_a_trained_prompt_knows_the_questions_it_learnt_from(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    exam = exam_of()
    with home.open() as kb:
        trainer(kb, exam, llm).train("mine")
        stage = LLMListwise(mode="meta", trained="mine")
        learnt = stage.training_questions(kb.services)
        assert LLMListwise().training_questions(kb.services) == frozenset()
    pairs = zip(exam.queries, held_out(exam.queries), strict=True)
    assert learnt == {question_key(question.text) for question, out in pairs if not out}


def test_bench_asks_a_trained_prompt_only_what_it_did_not_learn_from(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    exam = exam_of()
    with home.open() as kb:
        trainer(kb, exam, llm).train("mine")
        model = json.dumps(llm.model)
        step = f"bm25 >> llm_listwise(reverse=false, model={model}, top=4, keep=2, mode=meta, trained=mine)"
        plan = Plan(tuple(from_texts(["bm25", step], {})), exam, parse_measures(["RR@10"]))
        report = run_bench(kb, plan, "").report
    assert report.exam.queries == sum(held_out(exam.queries))


@pytest.mark.usefixtures("toys")
def test_command_for_weights_then_the_fuser_that_shows_them(home: Home, llm: LLMServer) -> None:
    """The toy encoder counts words, so `cash cash cash amber` is nearest to the file with most cash in it: only the
    weights decide."""
    for i, word in enumerate(WORDS):
        home.write(f"docs/{word}.md", f"The {word} file. {'cash ' * i}")
    home.sync("docs")
    exam = Exam(
        "words",
        tuple(
            query(f"q{i}", f"{'cash ' * (i % 4)}{WORDS[i % 12]} {i}", Judgment(f"{WORDS[i % 12]}.md"))
            for i in range(60)
        ),
    )
    with home.open() as kb:
        ExamStore(kb.data / "exams").save(exam)
    step = ["--step", "llm_weights", "--retrieve", "bm25", "--retrieve", "dense(model=toy)", "--name", "mine"]
    made = surefind("train", "prompt", "--exam", "words", *step, "--json", kb=home.folder).json
    assert 1 <= len(made["examples"]) <= 6 and made["use"].endswith("llm_weights(examples=mine)")
    llm.say('{"bm25": 0.5, "dense": 0.5}')
    model = json.dumps(llm.model)
    with home.open() as kb:
        ask(kb, "cash amber", pipeline=f"bm25 + dense(model=toy) >> llm_weights(model={model}, examples=mine)")
        assert all(example["query"] in llm.prompts[0] for example in made["examples"])
        assert "Best weights: " in llm.prompts[0]
        with pytest.raises(SpecError, match="are for bm25 \\+ dense, not bm25 \\+ tfidf"):
            ask(kb, "cash", pipeline=f"bm25 + tfidf >> llm_weights(model={model}, examples=mine)")


def test_command_for_reranking_quotes_and_tells(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    with home.open() as kb:
        ExamStore(kb.data / "exams").save(exam_of())
    options = ["--model", llm.model, "--top", "6", "--keep", "2", "--pipeline", "words", "--name", "mine"]
    ran = surefind("train", "prompt", "--exam", "words", *options, kb=home.folder)
    assert ran.code == 0, ran.err
    assert "At most" in ran.err
    assert "6 questions, 6 of them worth reranking" in ran.out
    assert "lost 1.00 recall, prompt rewritten: cash" in ran.out
    listed = surefind("train", "list", kb=home.folder)
    assert "mine" in listed.out and "llm_listwise" in listed.out


def test_a_prompt_of_another_step_is_refused(home: Home, llm: LLMServer) -> None:
    llm.reply = reply
    with home.open() as kb:
        trainer(kb, exam_of(), llm).train("mine")
        with pytest.raises(SpecError, match="is for llm_listwise, not for llm_weights"):
            trained_prompt(kb.services, "mine", "llm_weights")
