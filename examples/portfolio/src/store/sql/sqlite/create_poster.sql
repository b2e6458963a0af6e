CREATE TABLE IF NOT EXISTS portfolio_poster (
    poster_id        TEXT    NOT NULL PRIMARY KEY,
    version          INTEGER NOT NULL CHECK (version >= 1),
    title            TEXT    NOT NULL,
    edition          INTEGER NOT NULL,
    audience         TEXT    NOT NULL CHECK (audience IN ('public', 'partners', 'team')),
    author_name      TEXT    NOT NULL,
    author_team      TEXT    NOT NULL,
    on_display_until TEXT    NOT NULL
) STRICT
