SELECT version, title, edition, audience, author_name, author_team, on_display_until
FROM portfolio_poster
WHERE poster_id = $1
