CREATE TABLE IF NOT EXISTS portfolio_poster (
    poster_id        text COLLATE "C" NOT NULL PRIMARY KEY,
    version          bigint NOT NULL CHECK (version >= 1),
    title            text   NOT NULL,
    edition          bigint NOT NULL,
    audience         text   NOT NULL CHECK (audience IN ('public', 'partners', 'team')),
    author_name      text   NOT NULL,
    author_team      text   NOT NULL,
    on_display_until text   NOT NULL
)
