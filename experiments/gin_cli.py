"""A script's command line, in T5X's manner; the only file that knows gin.

    --gin_file=FILE           a configuration; later ones override
    --gin.NAME=VALUE          a single binding; overrides all files
    --gin_search_paths=PATHS  where to look for files, separated by commas
    --output_dir=FOLDER       where the results go

VALUE is a Python literal or a reference, so text has quotes of its own:
--gin.TASK_PATH='"test.tsv"'. What a script does is one function `run`, whose
arguments gin binds under the script's name: --gin.generate.batch_size=8.
"""

import argparse
import inspect
import logging
import pathlib
import sys
import tokenize
from collections.abc import Callable, Sequence
from typing import Any

from experiments.paths import REPOSITORY


def main(
  run: Callable[..., Any],
  *,
  name: str,
  configurables: Sequence[type] = (),
  argv: Sequence[str] | None = None,
) -> Any:
  """Reads the command line and calls `run` with what it binds.

  Args:
    run: What to do; its arguments are keyword-only, and one of them is
      `output_dir`.
    name: What bindings call it.
    configurables: Classes that bindings may set up, under their own names.
    argv: The command line without the program; None for this process's.

  Returns:
    What `run` returns.

  Raises:
    SystemExit: If the command line or a configuration is wrong.
  """
  import gin

  gin.clear_config()
  configured = _register(gin, run, name)
  for each in configurables:
    _register(gin, each, each.__name__)
  flags = _parse(sys.argv[1:] if argv is None else argv, run, name)
  for path in (str(REPOSITORY / "gin_configs"), str(REPOSITORY)):
    gin.add_config_file_search_path(path)
  for path in flags.gin_search_paths:
    gin.add_config_file_search_path(path)
  # gin logs an error for each search path that lacks a file.
  logging.disable(logging.ERROR)
  try:
    for file in flags.gin_file:
      gin.parse_config_file(file)
    for binding in flags.bindings:
      _bind(gin, binding)
    if flags.output_dir is not None:
      gin.bind_parameter(f"{name}.output_dir", flags.output_dir)
    _check_required(gin, run, name)
    gin.finalize()
  except (ValueError, OSError, SyntaxError) as error:
    raise SystemExit(f"{name}: {error}") from error
  finally:
    logging.disable(logging.NOTSET)
  output_dir = pathlib.Path(gin.query_parameter(f"{name}.output_dir"))
  result = configured()
  # Last: a run that was refused must not leave its configuration there.
  output_dir.mkdir(parents=True, exist_ok=True)
  (output_dir / "config.gin").write_text(
    gin.operative_config_str(), encoding="utf-8"
  )
  return result


def _parse(argv, run, name) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog=name,
    description=inspect.getdoc(run),
    epilog=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    allow_abbrev=False,
  )
  parser.add_argument("--gin_file", action="append", default=[])
  parser.add_argument(
    "--gin_search_paths",
    type=lambda paths: paths.split(","),
    default=[],
  )
  parser.add_argument("--output_dir")
  parser.add_argument(
    "--gin_bindings",
    dest="bindings",
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="the same as --gin.NAME=VALUE",
  )
  return parser.parse_args([_rewrite(each, parser) for each in argv])


def _rewrite(argument: str, parser: argparse.ArgumentParser) -> str:
  if not argument.startswith("--gin."):
    return argument
  if "=" not in argument:
    parser.error(f"{argument} has no value; write {argument}=VALUE")
  return "--gin_bindings=" + argument.removeprefix("--gin.")


def _bind(gin, binding: str) -> None:
  macro = binding.split("=", 1)[0].strip()
  if "." not in macro and "/" not in macro:
    # gin would take a macro that no file has, and ignore it.
    try:
      gin.query_parameter(f"{macro}/gin.macro.value")
    except ValueError as error:
      raise ValueError(
        f"--gin.{binding}: no gin file has a macro {macro}. Set one that a"
        " --gin_file defines, or an argument, as in --gin.generate.seed=1."
      ) from error
  try:
    gin.parse_config(binding)
  except (SyntaxError, tokenize.TokenError) as error:
    raise ValueError(
      f"--gin.{binding}: the value is no Python literal. Text has quotes of"
      " its own: --gin.NAME='\"text\"'."
    ) from error


def _check_required(gin, run, name: str) -> None:
  missing = []
  for parameter in inspect.signature(run).parameters.values():
    if parameter.default is not parameter.empty:
      continue
    try:
      gin.query_parameter(f"{name}.{parameter.name}")
    except ValueError:
      missing.append(parameter.name)
  if missing:
    flags = ", ".join(
      "--output_dir=FOLDER"
      if each == "output_dir"
      else f"--gin.{name}.{each}=VALUE"
      for each in missing
    )
    raise ValueError(
      f"No value for {', '.join(missing)}. Give a --gin_file that sets"
      f" {'it' if len(missing) == 1 else 'them'}, or {flags}."
    )


def _register(gin, what, name: str):
  try:
    return gin.get_configurable(name)
  except ValueError:
    return gin.external_configurable(what, name)
