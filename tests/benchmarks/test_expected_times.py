from benchmarks.expected_times import compare


def test_times_are_held_against_what_was_expected_of_them():
    programs = [
        ("one", "plain", 1.0, 0.5, 2.0),
        ("one", "tiles", 2.0, 0.5, 3.0),
        ("one", "tiles", 2.05, 0.5, 1.0),  # as long as the one before it, as far as the model can tell
        ("other", "plain", 1.0, 0.9, 0.8),
    ]
    found = {what: measured for what, _, measured, _ in compare(programs)}
    assert found["measured / expected, plain"] == "1.40 (0.80 to 2.00, 2 programs)"
    assert found["order"] == "1 of 2 pairs"
    assert found["faster than an H100's bound"] == "1 of 4"
