"""A deterministic trace: several users talk, turn by turn, to assistants.

Every prompt is the assistant's system prompt, the user's conversation so far
and a new question; users share the assistants in turn.  Each round has an
order of its own.  Questions depend on seed, user and round alone, never on who
answered.
"""

import random

USERS = ("ana", "ben", "chi", "dan", "eve", "fay", "gus", "hal")
ASSISTANTS = 3
VOCABULARY = range(1000, 150000)
SYSTEM_TOKENS = 136
QUESTION_TOKENS = (40, 140)
ANSWER_TOKENS = (30, 110)


def draw(seed, *what):
    return random.Random("/".join(map(str, (seed, *what))))


def tokens_of(rng, bounds):
    return rng.choices(VOCABULARY, k=rng.randint(*bounds))


class Turn:
    """One question.  The answer must be given before the user's next one."""

    def __init__(self, user, history, rng):
        self.user = user
        self._history = history
        history += tokens_of(rng, QUESTION_TOKENS)
        self.prompt = list(history)
        self.answer_tokens = rng.randint(*ANSWER_TOKENS)

    def answer(self, tokens):
        self._history += tokens


class Trace:
    def __init__(self, seed, users):
        self.seed = seed
        self.users = [USERS[i] if i < len(USERS) else f"user{i + 1}"
                      for i in range(users)]
        systems = [draw(seed, "system", i).choices(VOCABULARY, k=SYSTEM_TOKENS)
                   for i in range(ASSISTANTS)]
        self.history = {name: list(systems[i % ASSISTANTS])
                        for i, name in enumerate(self.users)}

    def order(self, number):
        order = list(self.users)
        draw(self.seed, "order", number).shuffle(order)
        return order

    def turn(self, user, number):
        return Turn(user, self.history[user], draw(self.seed, user, number))
