package state

import "time"

// AnnotationDeleted holds on a node what somebody deleted on its host and nothing
// has put back, as JSON: a list of Deleted.
const AnnotationDeleted = "holdfast.io/deleted"

// DeletedStatusPath is the file with the same for programs of the host.
const DeletedStatusPath = "/run/holdfast/deleted.json"

// DeletedStatus is the content of that file.
type DeletedStatus struct {
	At   time.Time `json:"at"`
	Lost []Deleted `json:"lost"`
}

// Deleted is something that is missing on a host, for a person. It holds no secret.
type Deleted struct {
	// What names it and stays the same: a path, or a part of a configuration.
	What string `json:"what"`
	// Problem says in a sentence what is missing, Meaning what follows from it and
	// what happens by itself.
	Problem string `json:"problem"`
	Meaning string `json:"meaning"`
	// Command is what a person types on the host, empty where nothing helps but
	// waiting.
	Command string `json:"command,omitempty"`
}
