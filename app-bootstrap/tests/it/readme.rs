//! The README's append, compiled: what it shows is this very function.

use crate::support::root;
use application_core::event::IntegrationEventDraft;
use application_core::ports::{TransactionError, TransactionPort};
use application_core::usecase::{AppendEventError, IntegrationEventAppender};
use outbound_persistence_postgres::{PostgresOutbox, PostgresTransactions};

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the business row was not written")]
    Business(#[from] sqlx::Error),
    #[error("the event was not appended")]
    Event(#[from] AppendEventError),
}

// README begins
async fn reserve(
    transactions: &PostgresTransactions,
    appender: IntegrationEventAppender<PostgresOutbox>,
    draft: IntegrationEventDraft,
) -> Result<(), TransactionError<Failed>> {
    transactions
        .in_write(move |tx| {
            Box::pin(async move {
                sqlx::query("INSERT INTO work_log (id) VALUES ('w-1')")
                    .execute(tx.as_mut())
                    .await?;
                appender.append(tx, &draft).await?;
                Ok(())
            })
        })
        .await
}
// README ends

#[test]
fn the_readme_shows_the_function_above() {
    let source = include_str!("readme.rs");
    let shown = source
        .split("// README begins\n")
        .nth(1)
        .and_then(|rest| rest.split("// README ends").next())
        .expect("the marks");
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README");
    assert!(readme.contains(shown), "README and test differ");
    let _ = reserve;
}

/// A figure that was never filled in is a placeholder, and no document has one.
#[test]
fn no_document_has_a_placeholder() {
    let mut seen = 0;
    for folder in ["", "docs", "docs/adr"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("folder") {
            let path = entry.expect("entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).expect("document");
                assert!(!text.contains("@@"), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 8, "{seen} documents");
}
