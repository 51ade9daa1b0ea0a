"""A few hundred varied English texts, from three words to a long paragraph, to compare two encoders on."""

TOPICS = (
    "resetting a forgotten password",
    "vitamin D deficiency in older adults",
    "the 1969 moon landing",
    "rolling back a failed database migration",
    "parental leave for part-time staff",
    "the boiling point of water at altitude",
    "garbage collection pauses in the JVM",
    "refunds on cancelled train tickets",
    "CRISPR editing of T cells",
    "supersonic flow over a blunt body",
    "the fall of Constantinople",
    "renewing a TLS certificate with certbot",
    "mortgage interest rates in 2023",
    "coral bleaching on the Great Barrier Reef",
    "pods stuck in CrashLoopBackOff",
    "sourdough starter that will not rise",
    "overtime pay under the collective agreement",
    "Bayesian optimisation of hyperparameters",
    "the offside rule",
    "GDPR requests to erase personal data",
    "migraine prophylaxis with beta blockers",
    "reading a CSV file with 10,000,000 rows",
    "Shakespeare's late romances",
    "error E1027: disk quota exceeded",
)

FRAMES = (
    "{}",
    "What is known about {}?",
    "How do I deal with {} step by step?",
    "We found no significant association between {} and the outcome (p = 0.43, n = 1,204).",
    "TODO: document {} before the next release!",
    "According to the report, {} was the main concern of 61% of those who answered.",
    "She wrote three letters about {}, none of which were ever sent.",
    "Section 4.2. {}. The following applies unless the customer has agreed otherwise in writing.",
    "def handler(event): raise RuntimeError('{}')",
    "{} is often confused with {}, although the two have little in common.",
    "WARNING {} -- retry 3/5 after 2000 ms (request id 7f3a-99c1)",
    "Explain {} to a ten-year-old, then compare it with {}.",
)


def sample_texts() -> list[str]:
    """Every frame filled with every topic, then one long paragraph per topic: 312 texts."""
    pairs = list(zip(TOPICS, TOPICS[1:] + TOPICS[:1], strict=True))
    short = [frame.format(*pair) for frame in FRAMES for pair in pairs]
    long = [" ".join(frame.format(*pair) for frame in FRAMES) for pair in pairs]
    return short + long
