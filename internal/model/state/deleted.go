package state

import "time"

// AnnotationDeleted is the annotation of a node that lists what somebody deleted on its
// host and nothing has put back: a list of Deleted as JSON.
const AnnotationDeleted = "holdfast.io/deleted"

// DeletedStatusPath is the file with the same list for programs of the host.
const DeletedStatusPath = "/run/holdfast/deleted.json"

// DeletedStatus is the content of that file.
type DeletedStatus struct {
	At   time.Time `json:"at"`
	Lost []Deleted `json:"lost"`
}

// Deleted describes, for a person, something that is missing on a host. It holds no secret.
type Deleted struct {
	// What holds a stable name: a path, or a part of a configuration.
	What string `json:"what"`
	// Problem says in a sentence what is missing. Meaning says what follows from that, and
	// what happens by itself.
	Problem string `json:"problem"`
	Meaning string `json:"meaning"`
	// Command is the command for a person on the host; empty if there is none.
	Command string `json:"command,omitempty"`
}
