// Package witness watches what a cluster tells people during a scenario:
// conditions and events in the API, alerts, reports of incidents. It turns its
// observations into a text with roles instead of hosts and without times, so
// that one play can be compared with another word for word.
package witness
