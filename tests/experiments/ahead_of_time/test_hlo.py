import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.ahead_of_time import hlo

# By hand, in the manner of a TPU's: a loop that decodes, with another one in
# it that drafts, and a loop that XLA made of a sort.
TEXT = (pathlib.Path(__file__).parent / "by_hand.hlo").read_text()


@pytest.fixture
def program():
  return hlo.parse(TEXT)


def test_instructions_are_read(program):
  assert program.entry == "main"
  (start,) = [
    each
    for each in program.computations["decode_body"]
    if each.name == "copy-start.1"
  ]
  cache = hlo.Array("bf16", (4, 8, 9))
  assert start.opcode == "copy-start"
  assert start.operands == ("value",)
  assert start.arrays == (
    cache._replace(space=3),
    cache,
    hlo.Array("u32", (), 2),
  )
  assert start.arrays[0].same(start.arrays[1])


def test_the_loop_is_the_one_with_most_in_it(program):
  assert hlo.decoding_loop(program) == "decode_body"


def test_collectives_of_the_loop_are_counted(program):
  found = hlo.loop_collectives(program, "decode_body", "draft")
  # The one before the loop is not in it, and what is started is done once.
  assert found.collectives == {"all-reduce": 3, "all-gather": 1}
  assert found.in_inner_loops == {"all-reduce": 1}
  assert found.in_draft == {"all-reduce": 2}


def test_copies_of_whole_caches_are_told_from_reads(program):
  found = hlo.cache_movement(
    program, "decode_body", [hlo.Array("bf16", (4, 8, 9))]
  )
  assert found == hlo.Movement(copied=1, fetched=1, written_back=1, updated=1)
  none = hlo.cache_movement(
    program, "decode_body", [hlo.Array("bf16", (2, 8, 9))]
  )
  assert none == hlo.Movement(0, 0, 0, 0)


def test_a_text_without_a_loop_is_refused():
  with pytest.raises(ValueError, match="no ENTRY"):
    hlo.parse("HloModule nothing\n")
  with pytest.raises(ValueError, match="no loop"):
    hlo.decoding_loop(hlo.parse(TEXT.replace("body=", "other=")))


def test_a_program_that_xla_compiled_is_read():
  @jax.jit
  def loop(x):
    def turn(carry):
      i, x = carry
      with jax.named_scope("draft"):
        _, x = jax.lax.fori_loop(
          0, i, lambda j, c: (c[0], jnp.sin(c[1])), (i, x)
        )
      return i - 1, x.at[i].set(0.0, mode="drop")

    return jax.lax.while_loop(lambda carry: carry[0] > 0, turn, (3, x))[1]

  text = loop.lower(np.zeros((64, 48), np.float32)).compile().as_text()
  program = hlo.parse(text)
  body = hlo.decoding_loop(program)
  found = hlo.loop_collectives(program, body, "draft")
  assert found == hlo.Loop({}, {}, {})
  moved = hlo.cache_movement(program, body, [hlo.Array("f32", (48, 64))])
  assert (moved.fetched, moved.written_back) == (0, 0)
  assert moved.updated >= 1
