// Package witness watches what a cluster tells people while a scenario is
// played: conditions and events in the API, alerts, reports of incidents. What
// it saw becomes a text in which hosts have their roles and times are gone, so
// that one play can be compared with another, word for word.
package witness
