//! What may be opened, and what is refused before anything is touched.

use outbound_persistence_sqlite::{OpenError, SqliteStore, SqliteStoreOptions};
use sqlx::Row as _;
use std::path::Path;

async fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, SqliteStoreOptions::default()).await
}

fn says(error: &OpenError, path: &Path) {
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
}

#[tokio::test]
async fn a_directory_is_refused() {
    let directory = tempfile::tempdir().expect("directory");
    let error = open(directory.path()).await.expect_err("refused");
    assert!(matches!(error, OpenError::NotARegularFile { .. }));
    says(&error, directory.path());
}

#[tokio::test]
async fn a_fifo_is_refused_without_waiting_for_a_writer() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    let error = open(&path).await.expect_err("refused");
    assert!(matches!(error, OpenError::NotARegularFile { .. }));
    says(&error, &path);
}

#[tokio::test]
async fn a_missing_directory_is_refused() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("no/such/outbox.db");
    let error = open(&path).await.expect_err("refused");
    assert!(matches!(error, OpenError::Database { .. }), "{error:?}");
    says(&error, &path);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_kept() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("notes.txt");
    let content = "not a database, but somebody's notes\n".repeat(100);
    std::fs::write(&path, &content).expect("file");
    let error = open(&path).await.expect_err("refused");
    assert!(matches!(error, OpenError::Database { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("file"), content);
}

#[tokio::test]
async fn an_open_store_is_durable_and_its_reads_cannot_write() {
    let directory = tempfile::tempdir().expect("directory");
    let store = open(&directory.path().join("outbox.db"))
        .await
        .expect("open");
    let row = sqlx::query(
        "SELECT (SELECT journal_mode FROM pragma_journal_mode) AS journal_mode,
                (SELECT synchronous FROM pragma_synchronous) AS synchronous,
                (SELECT foreign_keys FROM pragma_foreign_keys) AS foreign_keys",
    )
    .fetch_one(store.read_pool())
    .await
    .expect("settings");
    assert_eq!(row.get::<&str, _>("journal_mode"), "wal");
    assert_eq!(row.get::<i64, _>("synchronous"), 2);
    assert_eq!(row.get::<i64, _>("foreign_keys"), 1);
    let written = sqlx::query("CREATE TABLE t (c INTEGER)")
        .execute(store.read_pool())
        .await;
    let error = written.expect_err("a read connection wrote");
    let code = error.as_database_error().and_then(|error| error.code());
    assert_eq!(code.as_deref(), Some("8"), "{error}");
}

#[tokio::test]
async fn a_store_keeps_its_identity_when_it_is_opened_again() {
    use application_core::ports::TransactionResourcePort as _;
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("outbox.db");
    let mut ids = Vec::new();
    for _ in 0..2 {
        let store = open(&path).await.expect("open");
        ids.push(store.transactions().resource_id().await.expect("id"));
        store.close().await;
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn many_open_a_new_file_at_once() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("outbox.db");
    let opening: Vec<_> = (0..6)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move { open(&path).await })
        })
        .collect();
    for opened in opening {
        let store = opened.await.expect("joined").expect("opened");
        let applied: i64 = sqlx::query_scalar("SELECT count(*) FROM countersign_migrations")
            .fetch_one(store.read_pool())
            .await
            .expect("migrations");
        assert_eq!(applied, 6);
    }
}

/// Neither a memory database nor a temporary one is a store.
#[tokio::test]
async fn a_path_that_is_no_file_is_refused() {
    for path in [":memory:", ""] {
        let error = open(Path::new(path)).await.expect_err(path);
        assert!(
            matches!(
                error,
                OpenError::Setting {
                    setting: "journal_mode",
                    ..
                }
            ),
            "{error:?}"
        );
    }
}

/// A file name is a file name, whatever it looks like.
#[tokio::test]
async fn a_file_name_is_taken_as_it_is() {
    let directory = tempfile::tempdir().expect("directory");
    for name in ["a b?mode=memory#x%20&y.db", "file:outbox.db", "사건.db"] {
        let path = directory.path().join(name);
        let store = open(&path).await.expect(name);
        store.close().await;
        assert!(path.is_file(), "{name}");
    }
    let names = std::fs::read_dir(directory.path()).expect("directory");
    assert_eq!(names.count(), 3);
}
