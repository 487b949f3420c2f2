"""Superset with the dashboard of a results directory, on this machine.

    python3 start.py RESULTS [--port 8088] [--home DIRECTORY] [--stride-pipe PROGRAM]

The first start installs the packages of requirements.txt into ~/.cache/stride-pipe (a minute). Every start brings the
views up to date, imports the charts of assets/ again, and leaves other charts and dashboards as they are.
"""

import argparse
import hashlib
import logging
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import warnings

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from environment import environment

HERE = pathlib.Path(__file__).resolve().parent
ASSETS = HERE / "assets"


def state():
    return pathlib.Path(os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local/state") / "stride-pipe"


def say(text):
    print(f"superset: {text}", flush=True)


def silence(place):
    """Takes the address of the telemetry out: what is packaged has no switch for it."""
    pixel = b"https://apachesuperset.gateway.scarf.sh/pixel/"
    for script in place.glob("lib/python*/site-packages/superset/static/assets/*.js"):
        text = script.read_bytes()
        if pixel in text:
            script.unlink()  # it may be a link into the cache of uv
            script.write_bytes(text.replace(pixel, b"data:,#"))


def find_program(given):
    beside = HERE.parent.parent / "target/release/stride-pipe"
    program = given or shutil.which("stride-pipe") or (beside if beside.exists() else None)
    return program or sys.exit("superset: stride-pipe is not on the search path; name it with --stride-pipe PROGRAM")


def prepare_home(home, place):
    """The database of Superset itself, its secret, and a password."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    for name, words in [("secret", 42), ("password", 9)]:
        if not (home / name).exists():
            (home / name).write_text(secrets.token_urlsafe(words))
    os.environ["STRIDE_SUPERSET_HOME"] = str(home)
    os.environ["SUPERSET_CONFIG_PATH"] = str(HERE / "superset_config.py")
    template = place / "superset.db"
    if not (home / "superset.db").exists() and template.exists():
        shutil.copy(template, home / "superset.db")
    return not (home / "superset.db").exists()


def prepare_tables(app, home, template):
    """Several hundred migrations: done once, and kept for the next home."""
    from flask_migrate import upgrade
    from superset.extensions import appbuilder, db, security_manager

    import superset

    say("preparing the database of Superset (once)")
    upgrade(directory=str(pathlib.Path(superset.__file__).parent / "migrations"))
    appbuilder.add_permissions(update_perms=True)
    security_manager.sync_role_definitions()
    db.session.commit()
    draft = template.with_suffix(f".{os.getpid()}")
    shutil.copy(home / "superset.db", draft)
    draft.rename(template)


def import_assets(home, database):
    """The charts as they stand in assets/, with the address of this database."""
    from superset.commands.importers.v1.assets import ImportAssetsCommand
    from superset.extensions import security_manager
    from superset.utils.core import override_user

    user = security_manager.find_user(username="admin")
    if user is None:
        password = (home / "password").read_text()
        role = security_manager.find_role("Admin")
        user = security_manager.add_user("admin", "stride", "pipe", "admin@localhost", role, password)
    contents = {str(path.relative_to(ASSETS)): path.read_text() for path in sorted(ASSETS.rglob("*.yaml"))}
    address = "databases/stride_pipe.yaml"
    lines = contents[address].splitlines(keepends=True)
    own = f"sqlalchemy_uri: duckdb:///{database}\n"
    contents[address] = "".join(own if line.startswith("sqlalchemy_uri:") else line for line in lines)
    with override_user(user):
        ImportAssetsCommand(contents).run()


def serve(app, port, words):
    from gunicorn.app.base import BaseApplication

    class Server(BaseApplication):
        def load_config(self):
            self.cfg.set("bind", f"127.0.0.1:{port}")
            self.cfg.set("preload_app", True)
            self.cfg.set("workers", 2)
            self.cfg.set("threads", 8)
            self.cfg.set("timeout", 120)
            self.cfg.set("loglevel", "warning")
            self.cfg.set("when_ready", lambda server: say(words))
            # DuckDB's threads do not outlive a fork, and its farewell to them would fail.
            self.cfg.set("worker_exit", lambda server, worker: os._exit(0))

        def load(self):
            return app

    Server().run()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path, nargs="?", default="results", help="the results directory")
    parser.add_argument("--install-only", action="store_true", help="make the environment, and start nothing")
    parser.add_argument("--port", type=int, default=8088)
    parser.add_argument("--home", type=pathlib.Path, help="where Superset keeps what you change; default: ~/.local/state/stride-pipe")
    parser.add_argument("--stride-pipe", help="the program; default: that of the search path")
    arguments = parser.parse_args()
    place = environment("superset", silence)
    if arguments.install_only:
        return
    inside = place / "bin/python"
    if not os.path.samefile(sys.prefix, place):
        os.execv(inside, [str(inside), __file__, *sys.argv[1:]])

    results = arguments.results.resolve()
    identity = hashlib.sha256(str(results).encode()).hexdigest()[:12]
    home = (arguments.home or state() / f"superset-{identity}").resolve()
    is_new = prepare_home(home, place)
    database = home / "results.duckdb"
    views = [find_program(arguments.stride_pipe), "views", "--results", results, "--database", database, "--duckdb", inside]
    made = subprocess.run(list(map(str, views)), stdout=subprocess.DEVNULL)
    if made.returncode != 0:
        sys.exit(made.returncode)

    # Migrations and imports say hundreds of lines about themselves.
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    for name in ["py.warnings", "superset.views.base"]:
        logging.getLogger(name).setLevel(logging.ERROR)
    from superset.app import create_app

    app = create_app()
    with app.app_context():
        from superset.extensions import db

        if is_new:
            prepare_tables(app, home, place / "superset.db")
        import_assets(home, database)
        # The workers open their own.
        db.session.remove()
        db.engine.dispose()
    address = f"http://127.0.0.1:{arguments.port}/superset/dashboard/stride-pipe/"
    serve(app, arguments.port, f"{address}  user admin, password {(home / 'password').read_text()}")


if __name__ == "__main__":
    main()
