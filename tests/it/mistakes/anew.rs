//! Mistakes chosen anew, after all messages had been mended: of each the file, the place, the cause and the remedy are said.

use super::place::explained;

#[test]
fn fifty_mistakes_that_nobody_had_made_before_are_explained_with_file_place_cause_and_remedy() {
    explained("anew.txt", 50);
}
