"""A page that runs one made-up job, for tests of what a job shows."""

from __future__ import annotations

import os

import streamlit as st

from mwviz.worker import Job
from mwviz_app import state, widgets
from mwviz_app.jobs import Worker


@st.cache_resource
def worker() -> Worker:
    return Worker(["tests.app.fake_jobs"])


state.worker = worker
kind = os.environ["KIND"]
worker().submit(Job(kind, kind, os.environ["LOG"], "r1", "replay", model="tiny"))
widgets.show_job(kind)
st.text(f"page ran, job is {worker().states()[0].status}")
