"""The pages of runs and results."""

from fastapi import APIRouter

router = APIRouter()
