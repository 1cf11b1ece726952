"""Fine-tuning at a vendor: check, quote, confirm, upload, create, follow, and the card at the end.

    trained/{base}-{method}-{hash}/
        job.json                what was asked for and how far it is; each step is recorded before and after it is done
        {folder}-train.jsonl    what was uploaded, under a name that nothing else has
        README.md               the model card, written last

The same command finds the folder by its name and goes on where it was interrupted. What was asked of the vendor and
not recorded any more is looked up there, by the file's name and the job's token, so that nothing is done twice.
"""

import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.scorers.graders.openai_export import needs_target
from truthgym.training.artifacts import CARD, card_metadata, folder_lock, hash_dataset, hash_file
from truthgym.training.providers.job_folder import Job
from truthgym.training.providers.pricing import Quote, count_tokens, quote
from truthgym.training.providers.provider import Look, Order, Vendor, asking, words
from truthgym.training.providers.upload import Line, encoded, lines_of, without_target
from truthgym.training.trainers.model_card import Facts, is_finished, name_of, read_card, write_card

ATTEMPTS = 5
"""How often a job is asked for while the vendor is busy or cannot be reached."""


@dataclass
class FineTuning:
    """One run of the command."""

    order: Order
    vendor: Vendor
    output_dir: Path
    confirm: Callable[[str], bool]
    """Asks whether to spend; it is given the quote."""
    say: Callable[[str], None] = print
    show: Callable[[Look], None] = lambda look: None
    """Shows progress at every look."""
    poll: float = 20.0
    """Seconds between two looks."""
    wait: bool = True
    """Whether to follow the job to its end."""
    overwrite: bool = False
    """Whether to train again what has been trained, or has failed."""

    def run(self) -> Path | None:
        """Train, or go on with what was begun.

        Returns:
            The folder, with the card if the job has ended; None where spending was declined.

        Raises:
            BadInput: Something cannot be used, the vendor refuses it, or the job has failed.
        """
        order, vendor = self.order, self.vendor
        data = hash_dataset(order.dataset)
        lines = lines_of(order.dataset, order.method, vendor.name.lower())
        self._check(lines)
        epochs = {} if order.method == "reinforcement" else {"n_epochs": order.epochs}
        config: dict[str, Any] = {"provider": vendor.name.lower(), **epochs, **order.options}
        base_hash = f"{config['provider']}:{order.model}"
        hashed = config | {"grader": order.grader, "suffix": order.suffix}
        folder = self.output_dir / name_of(order.method, order.model, base_hash, data, hashed)
        if order.grader:
            config["grader"] = order.grader["name"]
        with folder_lock(folder):
            job = Job(folder)
            _restore(job)
            try:
                if not self._begin(job):
                    return folder
                self.say(f"{folder}")
                if not self._created(job, lines):
                    return None
                if self.wait:
                    look = self._follow(job)
                    if look.failure is not None:
                        raise _failed(vendor, job.told["job"], look.failure, folder)
                    facts = Facts(order.method, order.model, base_hash, "", str(order.dataset), data, config)
                    self._finish(job, facts)
                return folder
            finally:
                if job.told and not job.told["asked"]:  # refused or declined before anything was sent
                    shutil.rmtree(folder, ignore_errors=True)
                _restore(job)

    def _check(self, lines: dict[str, list[Line]]) -> None:
        if self.order.method == "reinforcement":
            if "validation" not in lines:
                raise bad_input(
                    f"{self.order.dataset} has no validation split, which reinforcement fine-tuning needs; convert the "
                    "logs with --validation train"
                )
            missing = without_target([line for part in lines.values() for line in part])
            if missing and self.order.grader and needs_target(self.order.grader):
                raise bad_input(
                    f"{self.order.dataset}: {missing} rows have no target yes or no, which the grader "
                    f"{self.order.grader['name']} reads; leave them out, or take another grader"
                )

    def _begin(self, job: Job) -> bool:
        """Start a record, or take up the one that is there. False where nothing is left to do."""
        told, vendor = job.told, self.vendor
        if self.overwrite and told:
            if not is_finished(job.folder):
                with asking(vendor, "to tell of the job that was begun"):
                    begun = told.get("job") or (vendor.find_job(told["token"]) if "job" in told["asked"] else None)
                    look = vendor.look(begun) if begun else None
                if look and look.model is None and look.failure is None:
                    raise bad_input(
                        f"{job.folder}: its job {begun} is {look.status} at {vendor.name}; cancel it there before "
                        "another is started, or leave out --overwrite to follow it"
                    )
            if _before(job.folder).is_dir():  # an earlier try to do so came to no job
                shutil.rmtree(job.folder)
            else:
                job.folder.rename(_before(job.folder))
            job.told = {}
        elif is_finished(job.folder):
            model = read_card(job.folder).model
            self.say(f"{job.folder} is trained already: {model}. To train it again, say --overwrite")
            return False
        elif told.get("failure"):
            raise _failed(vendor, told["job"], told["failure"], job.folder)
        if not job.told:
            order = asdict(self.order) | {"dataset": str(self.order.dataset)}
            job.record(provider=vendor.name.lower(), order=order, token=secrets.token_hex(6), asked=[], files={})
        return True

    def _write(self, folder: Path, lines: dict[str, list[Line]]) -> dict[str, Path]:
        """Write what is uploaded, beside the record."""
        paths = {split: folder / f"{folder.name}-{split}.jsonl" for split in lines}
        for split, path in paths.items():
            beside = path.with_suffix(".partial")
            beside.write_bytes(b"".join(encoded(line) for line in lines[split]))
            beside.replace(path)
        return paths

    def _created(self, job: Job, lines: dict[str, list[Line]]) -> bool:
        """Bring the job into being, where it is not yet. False where spending was declined."""
        if "job" in job.told:
            return True
        with asking(self.vendor, f"{self.order.method} of {self.order.model}"):
            self.vendor.check(self.order)
        paths = self._write(job.folder, lines)
        estimate = None
        if self.order.price is None and "confirmed" not in job.told:
            estimate = self._vendors_quote(job, paths)
        if estimate is None and "confirmed" not in job.told:
            tokens = count_tokens(lines["train"])
            estimate = quote(self.order.method, self.order.model, tokens, self.order.epochs, self.order.price)
        if estimate is not None:
            if not self.confirm(f"{self.vendor.name}: {self.order.method} of {self.order.model}. {estimate.text}"):
                self.say("Nothing was spent.")
                return False
            job.record(confirmed=asdict(estimate))
        files = self._upload(job, paths)
        job.record(job=self._create(job, files))
        shutil.rmtree(_before(job.folder), ignore_errors=True)
        self.say(f"{self.vendor.name} has the job {job.told['job']}")
        return True

    def _vendors_quote(self, job: Job, paths: dict[str, Path]) -> Quote | None:
        """The vendor's own estimate. One that needs the files to be there is given them."""
        files: dict[str, str] = {}
        if self.vendor.quotes_files:
            self.say(f"{self.vendor.name} estimates the price from the uploaded files. Uploading costs nothing.")
            files = self._upload(job, paths)
        with asking(self.vendor, "an estimate of the price"):
            return self.vendor.quote(self.order, files, self.poll)

    def _upload(self, job: Job, paths: dict[str, Path]) -> dict[str, str]:
        files: dict[str, str] = job.told["files"]
        for split, path in paths.items():
            if split in files:
                continue
            with asking(self.vendor, f"the upload of {path.name}"):
                found = self.vendor.find_file(path) if split in job.told["asked"] else None
                if found is None:
                    job.record(asked=sorted({*job.told["asked"], split}))
                    found = self.vendor.upload(path)
            files[split] = found
            job.record(files=files, sha256={**job.told.get("sha256", {}), split: hash_file(path)})
        return files

    def _create(self, job: Job, files: dict[str, str]) -> str:
        """Create the job once: after every doubt whether the vendor took it, it is looked for before it is repeated."""
        for attempt in range(ATTEMPTS):
            with asking(self.vendor, "the job"):
                try:
                    if "job" in job.told["asked"] and (found := self.vendor.find_job(job.told["token"])):
                        return found
                    job.record(asked=sorted({*job.told["asked"], "job"}))
                    return self.vendor.create(self.order, files, job.told["token"])
                except self.vendor.passing:
                    if attempt == ATTEMPTS - 1:
                        raise
            time.sleep(self.poll)
        raise AssertionError  # the last attempt returned or raised

    def _follow(self, job: Job) -> Look:
        """Look until the vendor says that the job has ended. While it cannot be reached, it is asked again."""
        away = False
        while True:
            try:
                with asking(self.vendor, f"about the job {job.told['job']}", passes=True):
                    look = self.vendor.look(job.told["job"])
            except self.vendor.passing as error:
                if not away:
                    self.say(f"{self.vendor.name} cannot be reached ({words(error)}); asking again")
                away = True
            else:
                away = False
                self.show(look)
                if look.status != job.told.get("status"):
                    job.record(status=look.status)
                if look.failure is not None:
                    job.record(failure=look.failure)
                if look.model is not None or look.failure is not None:
                    return look
            time.sleep(self.poll)

    def _finish(self, job: Job, facts: Facts) -> None:
        with asking(self.vendor, "for the result"):
            facts.model, facts.curve, notes = self.vendor.result(job.told["job"])
        facts.dataset_facts = card_metadata(self.order.dataset)
        facts.notes = [f"Trained at {self.vendor.name} by its job `{job.told['job']}`.", *notes]
        job.record(model=facts.model)
        write_card(job.folder, facts)
        self.say(f"Trained: {facts.model}. See {job.folder / CARD}")


def _failed(vendor: Vendor, job: str, failure: str, folder: Path) -> Exception:
    return bad_input(
        f"The job {job} ended at {vendor.name} without a model: {failure}. To start another with the same data and "
        f"options, add --overwrite ({folder})"
    )


def _before(folder: Path) -> Path:
    """Where what is to be overwritten waits until its successor has a job."""
    return folder.with_name(f".{folder.name}.before")


def _restore(job: Job) -> None:
    """Put back what was to be overwritten, where nothing was spent in its place."""
    if _before(job.folder).is_dir() and "confirmed" not in job.told:
        shutil.rmtree(job.folder, ignore_errors=True)
        _before(job.folder).rename(job.folder)
        job.told = Job(job.folder).told
