"""A web API made with FastAPI: a server that checks for itself what it is sent, and writes its own OpenAPI document."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import (
    Cookie,
    Depends,
    FastAPI,
    File,
    Form,
    Header,
    HTTPException,
    Path,
    Query,
    Request,
    Response,
    UploadFile,
)
from fastapi.responses import RedirectResponse
from fastapi.security import APIKeyHeader, APIKeyQuery, HTTPBasic, HTTPBasicCredentials, HTTPBearer
from pydantic import BaseModel, Field


class Kind(str, Enum):
    """What a pet is."""

    CAT = "cat"
    DOG = "dog"


class Toy(BaseModel):
    name: str
    price: float = Field(ge=0)


class Pet(BaseModel):
    name: str = Field(min_length=1, max_length=50)
    kind: Kind
    tags: list[str] = []
    toys: list[Toy] = []
    mother: Pet | None = None
    note: str | None = None


class Stored(Pet):
    id: int


def make_app() -> FastAPI:
    """Return a fresh API with no pets."""
    app = FastAPI(title="Pets", version="1.0")
    pets: dict[int, Stored] = {}

    @app.post("/pets", status_code=201, operation_id="createPet", tags=["pets"])
    def create_pet(pet: Pet) -> Stored:
        """Add a pet."""
        stored = Stored(id=len(pets) + 1, **pet.model_dump())
        pets[stored.id] = stored
        return stored

    @app.get("/pets", operation_id="listPets", tags=["pets"])
    def list_pets(
        kind: Kind | None = None,
        tag: Annotated[list[str], Query(description="Any of these tags.")] = [],
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
        offset: int = 0,
    ) -> list[Stored]:
        """List pets, a page at a time."""
        found = [
            p
            for p in pets.values()
            if kind in (None, p.kind) and (not tag or set(tag) & set(p.tags))
        ]
        return found[offset : offset + limit]

    @app.get("/pets/{pet_id}", operation_id="getPet", tags=["pets"])
    def get_pet(pet_id: Annotated[int, Path(ge=1)]) -> Stored:
        if pet_id not in pets:
            raise HTTPException(404, f"no pet {pet_id}")
        return pets[pet_id]

    @app.delete("/pets/{pet_id}", status_code=204, operation_id="deletePet", tags=["pets"])
    def delete_pet(pet_id: int) -> None:
        pets.pop(pet_id)

    @app.put("/pets/{pet_id}/photo", operation_id="uploadPhoto")
    def upload_photo(
        pet_id: int,
        photo: UploadFile,
        caption: Annotated[str, Form()],
        extra: Annotated[list[bytes], File()] = [],
    ) -> dict[str, Any]:
        data = photo.file.read()
        return {
            "size": len(data),
            "hex": data.hex(),
            "type": photo.content_type,
            "caption": caption,
            "extra": len(extra),
        }

    @app.post("/login", operation_id="login")
    def login(
        user: Annotated[str, Form()], scopes: Annotated[list[str], Form()] = []
    ) -> dict[str, Any]:
        return {"user": user, "scopes": scopes}

    @app.get("/echo/{name}/{mode}", operation_id="echo")
    def echo(
        request: Request,
        name: str,
        mode: Literal["a", "b"],
        q: str | None = None,
        x_trace: Annotated[str | None, Header()] = None,
        session: Annotated[str | None, Cookie()] = None,
    ) -> dict[str, Any]:
        path = request.scope["raw_path"].decode()
        return {
            "name": name,
            "mode": mode,
            "q": q,
            "x_trace": x_trace,
            "session": session,
            "raw_path": path,
        }

    @app.get("/bearer", operation_id="bearer")
    def bearer(token: Annotated[Any, Depends(HTTPBearer())]) -> str:
        return str(token.credentials)

    @app.get("/key", operation_id="key")
    def key(value: Annotated[str, Depends(APIKeyHeader(name="X-API-Key"))]) -> str:
        return value

    @app.get("/query-key", operation_id="queryKey")
    def query_key(value: Annotated[str, Depends(APIKeyQuery(name="api_key"))]) -> str:
        return value

    @app.get("/basic", operation_id="basic")
    def basic(value: Annotated[HTTPBasicCredentials, Depends(HTTPBasic())]) -> list[str]:
        return [value.username, value.password]

    @app.get(
        "/image",
        operation_id="image",
        responses={200: {"content": {"image/png": {}}}},
        response_class=Response,
    )
    def image() -> Response:
        return Response(b"\x89PNG", media_type="image/png")

    @app.get("/old", operation_id="old", response_class=RedirectResponse)
    def old() -> str:
        return "/pets?limit=1"

    return app


@contextlib.contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Run an API on a free port of this machine, and give its URL."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="error", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
