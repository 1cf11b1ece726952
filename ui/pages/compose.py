"""The page on which a run is composed."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from truthgym.ui.pages.rendering import page

router = APIRouter()


@router.get("/")
def compose(request: Request) -> HTMLResponse:
    return page(request, "compose.html")
