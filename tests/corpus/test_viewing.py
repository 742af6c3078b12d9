"""The viewer's server: rows by search, filter and order; whole rows; tasks; from this machine only."""

import http.client
import json
import re
import threading
from pathlib import Path
from urllib.parse import urlencode

import pytest

import musadata
from musadata.commands.view import open_server
from musadata.corpus.datasets import DATASETS
from musadata.corpus.query import query

PAGE = Path(musadata.__file__).parent / "corpus/view.html"


@pytest.fixture(scope="module")
def ask(whole_corpus):
    with open_server(whole_corpus, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask(path: str, host: str = "127.0.0.1", **asked):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
            connection.request("GET", f"{path}?{urlencode(asked)}", headers={"Host": f"{host}:{server.server_port}"})
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if path.startswith("/api") and text else text

        yield ask
        server.shutdown()


def test_every_dataset_is_listed_with_its_columns_and_values_to_filter_by(ask, whole_corpus):
    status, found = ask("/api/datasets")
    assert status == 200 and [one["name"] for one in found["datasets"]] == list(DATASETS)
    for one in found["datasets"]:
        assert one["rows"] == query(whole_corpus, f"SELECT count(*) AS n FROM {one['name']}").to_pylist()[0]["n"]
        assert all(column["about"] for column in one["columns"].values())
    facets = {one["name"]: one["facets"] for one in found["datasets"]}
    assert dict(facets["candidates"]["accepted"]).keys() == {"true", "false"}


@pytest.mark.parametrize("dataset", list(DATASETS))
def test_rows_of_every_dataset_are_shown_in_pages_and_whole(ask, dataset):
    status, found = ask("/api/rows", dataset=dataset, limit=3)
    assert status == 200 and 0 < len(found["rows"]) <= 3 <= max(found["total"], 3)
    key = DATASETS[dataset].key
    if dataset != "rejects":
        status, row = ask("/api/row", dataset=dataset, id=found["rows"][0][key])
        assert status == 200 and row[key] == found["rows"][0][key]


def test_filters_search_and_order_are_those_of_sql(ask, whole_corpus):
    found = ask("/api/rows", dataset="candidates", accepted="false", order="reward", descending="true")[1]
    same = query(whole_corpus, "SELECT count(*) AS n, max(reward) AS r FROM candidates WHERE NOT accepted").to_pylist()[
        0
    ]
    assert (
        (found["total"], found["rows"][0]["reward"]) == (same["n"], same["r"]) if "reward" in found["rows"][0] else True
    )
    assert ask("/api/rows", dataset="tasks", search="softmax3")[1]["total"] == 1
    assert ask("/api/rows", dataset="sft", search="WRITE SOFTMAX2 in")[1]["total"] > 0
    assert ask("/api/rows", dataset="tasks", search="%")[1]["total"] == 0


def test_a_task_comes_with_all_that_was_made_from_it(ask):
    about = ask("/api/task", id="task-0001")[1]
    assert about["task"]["reference"] and about["annotations"][0]["reasoning"]
    turns = [(one["sample"], one["turn"]) for one in about["candidates"]]
    assert turns == sorted(turns) and {family for _, family in about["sft"]} > {"generation", "repair"}


def test_what_is_not_there_and_who_should_not_ask(ask):
    assert ask("/api/row", dataset="tasks", id="nothing")[0] == 404
    assert ask("/api/rows", dataset="secrets")[0] == 404
    assert ask("/api/rows", dataset="tasks", order='name" DESC; DROP VIEW tasks; --')[0] == 404
    assert ask("/etc/passwd")[0] == 404
    assert ask("/", host="evil.example")[0] == 403
    assert "<title>musadata" in ask("/")[1]


def test_the_page_asks_nobody_else_and_makes_no_markup_of_what_it_shows():
    page = PAGE.read_text()
    assert re.findall(r"https?://", page) == [] and not re.search(r"<(link|img|iframe)|src=", page)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", page)
