"""Tasks on the notes."""

from envs.apps.task import TaskConfig

TASKS = (
    TaskConfig(
        id="tiddlywiki/new-note",
        instruction='I need a new note called "Winter storage" that says: Boats stand in hall 3.',
        steps='Click "Tools". Click "new tiddler". Type "Winter storage" into "New Tiddler". '
        'Type "Boats stand in hall 3." into "Type the text for the tiddler". Press ctrl+Enter.',
        sites=("tiddlywiki",),
        changes={"tiddlywiki/Winter storage/text": "Boats stand in hall 3."},
        family="create",
        difficulty=1,
        human_steps=5,
    ),
)
