.PHONY: check format view types imports docs lines test results gallery notebooks figures validity rewards site release lowest

check: types imports  ## everything CI checks besides the tests
	ruff format --check .
	ruff check .

format:
	ruff format .
	ruff check --fix .

view:  ## the folders as static checkers must see them: build/typing/truthgym/<folder>
	mkdir -p build/typing/truthgym
	for room in analysis cli datasets evallog models scorers serve solvers sweep tasks training ui; do ln -sfn ../../../$$room build/typing/truthgym/$$room; done

types: view
	mypy -p truthgym -p tests -p studies -p examples

imports: view  ## imports run one way: the layers in pyproject.toml
	PYTHONPATH=build/typing lint-imports

docs:  ## the generated pages: docs/reference.md, and the layers in CONTRIBUTING.md
	python docs/reference.py

site:  ## the documentation as a site in build/site, without network; to search it: python -m http.server --directory build/site (pip install -e ".[site]")
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

release:  ## the wheel and the sdist in dist/, each installed and tried in a fresh environment (pip install -e ".[release]")
	python docs/release.py dist

lowest:  ## with the lowest version of each dependency: the README's commands, and two steps of each trainer (TORCH=2.13.0+cpu: that torch, where pip has no other)
	python docs/lowest.py build/lowest

lines:  ## lines of product code and of tests
	@git ls-files -z analysis cli datasets evallog models scorers serve solvers sweep tasks training ui | grep -z '\.py$$' | xargs -0 cat | wc -l
	@git ls-files -z studies | grep -z '\.py$$' | xargs -0 cat | wc -l
	@git ls-files -z tests | grep -z '\.py$$' | xargs -0 cat | wc -l

test:
	pytest

validity:  ## docs/validity*.md with their charts, docs/worlds.md and compare.md: every measure on agents whose truth is known (takes a while)
	python -m studies.validity.martingale docs/validity.md
	python -m studies.validity.brier docs/brier.md
	python -m studies.validity.sycophancy docs/validity_sycophancy.md
	python -m studies.validity.judges docs/validity_judges.md
	python -m studies.validity.generated_worlds docs/worlds.md
	python -m studies.validity.progress docs/validity_progress.md
	python -m studies.validity.uplift docs/validity_uplift.md
	python -m studies.validity.mutual_prediction docs/validity_mutual_prediction.md
	python -m studies.validity.comparisons docs/compare.md
	python -m studies.validity.agents docs/validity_agents.md --n 72

MODELS = hf/smollm2:135m=trained/smollm2 hf/Qwen/Qwen2.5-Coder-0.5B-Instruct
results:  ## docs/results.md and its chart, from runs of two small models and simulated agents in logs/results (takes a while; run it again to resume)
	[ -d trained/smollm2 ] || truthgym models smollm2 --out trained/smollm2
	python -m studies.results docs/results.md logs/results $(MODELS)

rewards:  ## the tables of docs/reward_methods.md, from the .csv files in studies/training, which reward_studies.py makes anew
	python -m studies.training.reward_figures

notebooks:  ## examples/notebooks/*.ipynb, each from the script beside it
	python docs/notebooks.py

gallery:  ## docs/gallery.md with its pictures, from examples/logs, which `python docs/sample_logs.py` makes anew
	python docs/gallery.py

figures:  ## every figure in the README and docs, from fresh runs of the reference agents
	logs=$$(mktemp -d) && \
	for run in "bayesian" "bayesian -M noise=0.2" "random"; do for task in forecasting urns; do \
	  inspect eval truthgym/$$task -T paradigms=brier --model reference/$$run --log-dir $$logs --display none || exit 1; done; done && \
	inspect eval truthgym/forecasting -T paradigms=brier --model reference/bayesian -M skill=2 --log-dir $$logs --display none && \
	inspect eval truthgym/urns -T paradigms=brier -T draws=12 --model reference/bayesian --log-dir $$logs --display none && \
	python -m truthgym.analysis.performance $$logs docs/brier_by_model.svg; rm -rf $$logs
