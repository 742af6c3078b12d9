"""vLLM's `run_batch` on the files of a folder. MUSADATA_RUN_BATCH is the command that answers one file, such as

vllm run-batch --model PATH --served-model-name tiny --max-model-len 4096 -i {input} -o {output}
"""

import os
import shlex
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.teacher.batch import BatchTeacher
from musadata.teacher.claims.steps import parse_steps
from musadata.teacher.protocol import Answer, RequestFailed, RequestKind
from tests.teacher.test_vllm import question

COMMAND = os.environ.get("MUSADATA_RUN_BATCH", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not COMMAND, reason="no vLLM: set MUSADATA_RUN_BATCH to a command"),
]
REQUESTS = [
    *(question(f"Write kernel {index}.", seed=index) for index in range(3)),
    question("Reason.", RequestKind.REASON),
    question("kernel " * 20_000),
]


def outcome(teacher, request):
    try:
        return teacher.answer(request)
    except RequestFailed as failure:
        return failure.reason


def ask(folder):
    config = TeacherConfig(TeacherType.BATCH, model="tiny", path=str(folder), max_tokens=900, send_seed=True)
    with (
        BatchTeacher(config, RequestsConfig(retries=0), settle_s=0.2, poll_s=0.2) as teacher,
        ThreadPoolExecutor(len(REQUESTS)) as pool,
    ):
        return list(pool.map(lambda request: outcome(teacher, request), REQUESTS))


def test_a_file_that_run_batch_answers_is_read_and_found_again(tmp_path):
    def answer_file():
        while not (found := list(tmp_path.glob("*.input.jsonl"))):
            time.sleep(0.1)
        output = str(found[0]).replace(".input.", ".output.")
        words = [word.format(input=found[0], output=output) for word in shlex.split(COMMAND)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    thread = threading.Thread(target=answer_file)
    thread.start()
    *written, reasoned, too_long = ask(tmp_path)
    thread.join()
    assert too_long == "prompt too long for the model"
    assert (isinstance(reasoned, Answer) and len(parse_steps(reasoned.text)) == 6) or "truncated" in reasoned
    for one in written:  # random weights rarely end, and open no block of code
        assert one == "truncated at max_tokens" or (isinstance(one, Answer) and one.usage.completion_tokens > 0)
    again = ask(tmp_path)
    assert list(map(str, again)) == list(map(str, [*written, reasoned, too_long]))
    assert len(list(tmp_path.glob("*.input.jsonl"))) == 1
