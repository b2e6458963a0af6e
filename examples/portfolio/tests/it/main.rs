//! Integration tests of the sample: schemas, both dialects on real databases, and the whole way
//! from an input line to the read model.
//!
//! Invariant: the same suite runs on SQLite and on PostgreSQL; a missing PostgreSQL fails it.

mod codec;
mod contracts;
mod harness;
mod postgres;
mod sqlite;
mod suite;

use harness::Harness;

/// Runs every test of the suite on both databases.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $test() {
                let harness = <super::sqlite::Sqlite as super::Harness>::open().await;
                super::suite::$test(&harness).await;
                super::Harness::close(harness).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $test() {
                let harness = <super::postgres::Postgres as super::Harness>::open().await;
                super::suite::$test(&harness).await;
                super::Harness::close(harness).await;
            })+
        }
    };
}

on_both!(
    the_shipped_input_becomes_a_read_model_once,
    every_refused_line_is_told_and_the_run_goes_on,
    a_refused_payload_rolls_the_business_row_back,
    a_swallowed_refusal_cannot_commit,
    ids_come_from_the_source_when_the_input_gives_none,
    only_the_next_version_is_saved,
    what_is_saved_is_loaded_again,
    a_row_that_breaks_its_rule_is_told_apart,
    the_read_model_does_not_depend_on_the_order_of_arrival,
    the_read_model_is_listed_in_pages,
    an_event_about_another_aggregate_is_never_applied,
);
