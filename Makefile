# make setup   a virtual environment with everything, and the embedded model (seconds when done before)
# make app     the same, then the browser app with its built-in demo
# make test    the same, then every check and every test

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12,$(shell command -v $(name) 2>/dev/null)))
DISK_MB := 4000
INSTALLED := $(VENV)/.installed
MODEL := $(VENV)/.model

.PHONY: setup app test clean
setup: $(MODEL)

app: setup
	$(BIN)/mwviz app

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile
	node --test tests/frontend/

clean:
	rm -rf $(VENV) build dist *.egg-info

# mypy cannot follow the import hook of an editable install; build/types shows it app/ as mwviz_app.
$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "mwviz needs Python 3.11 or 3.12; install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] not in {(3, 11), (3, 12)})' || { echo "$(PYTHON) is $$($(PYTHON) --version); mwviz needs Python 3.11 or 3.12" >&2; exit 1; }
	@test -x $(BIN)/python || test "$$(df -Pm . | awk 'NR == 2 {print $$4}')" -ge $(DISK_MB) || { echo "mwviz needs $(DISK_MB) MB of free disk here for torch and the other packages" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV) || { echo "cannot create $(VENV); on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing packages into $(VENV): about 2 GB, a few minutes the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev]' || { echo "pip could not install the packages: see its message above; it needs a connection to PyPI (or a mirror set in pip's configuration)" >&2; exit 1; }
	@mkdir -p build/types && ln -sfn ../../app build/types/mwviz_app
	@touch $@

$(MODEL): $(INSTALLED)
	$(BIN)/mwviz doctor --install-model
	@touch $@
