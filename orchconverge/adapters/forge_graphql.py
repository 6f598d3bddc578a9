"""The GraphQL documents that are sent to GitHub: what REST cannot do. Tests hold each against its published schema."""

from __future__ import annotations

VIEWER = "query { viewer { login } }"

THREADS = """
query ($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { id isResolved isOutdated comments(first: 1) { nodes { databaseId } } }
      }
    }
  }
}
"""

RESOLVE = "mutation ($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { isResolved } } }"

READY = "mutation ($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"

DRAFT = "mutation ($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"

ALL = (VIEWER, THREADS, RESOLVE, READY, DRAFT)
