"""What counts as equal up to timing between a recording of the real controllers and the simulator."""

from pathlib import Path

from tests.support.calibration.recording import Change, Recording, Step, differences

READY = "service/Ready"


def step(*values: str, name: str = "rolled", observable: str = READY, answer: str = "2") -> Step:
    return Step(name, tuple(Change(observable, value) for value in values), (Change("", answer),))


def test_another_order_another_reason_and_another_answer_are_told() -> None:
    real = step("Unknown", "False RevisionFailed", "True")
    assert differences([real], [real]) == []
    for other in (
        step("False RevisionFailed", "Unknown", "True"),
        step("Unknown", "False RevisionMissing", "True"),
        step("Unknown", "True"),
        step("Unknown", "False RevisionFailed", "True", answer="1"),
    ):
        assert len(differences([real], [other])) == 1


def test_what_one_controller_sees_or_not_while_it_waits_for_another_makes_no_difference() -> None:
    real = step("Unknown OutOfDate", "Unknown", "Unknown Uninitialized", "True")
    assert differences([real], [step("Unknown", "True")]) == []


def test_a_revision_may_change_in_a_later_step_but_not_in_another_order() -> None:
    def run(first: tuple[str, ...], second: tuple[str, ...]) -> list[Step]:
        name = "revision 1/Ready"
        return [step(*first, observable=name), step(*second, observable=name, name="sleeps")]

    real = run(("Unknown Deploying", "True"), ("False ExitCode3",))
    assert differences(real, run(("Unknown Deploying",), ("True", "False ExitCode3"))) == []
    assert differences(real, run(("Unknown Deploying", "False ExitCode3"), ("True",))) != []


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    recording = Recording({"kserve": "0.20.0"}, (step("Unknown", "True"), step(name="empty")))
    recording.write(tmp_path / "kept" / "sequences.json")
    assert Recording.read(tmp_path / "kept" / "sequences.json") == recording
