"""A page that runs one made-up job, for tests of what a job shows."""

from __future__ import annotations

import os

import streamlit as st

from mwviz.jobs import Job
from mwviz_app import state, widgets

kind = os.environ["KIND"]
state.worker().submit(Job(kind, kind, os.environ["LOG"], "r1", "replay", model="tiny"))
widgets.show_jobs(list(state.worker().states()))
st.text(f"page ran, job is {state.worker().states()[0].status}")
