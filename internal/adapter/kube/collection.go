package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind says how objects of one kind are watched and what is kept of them.
type Kind[T any] struct {
	// Path is the collection's place in the API.
	Path string
	// Only is the name of the one object that is wanted, empty for all.
	Only string
	// Read returns what is kept of an object. It returns an error for one that
	// it does not understand.
	Read func(object []byte) (T, error)
}

// errStartOver ends a watch whose next one has to begin with the whole list.
var errStartOver = errors.New("what happened since the last event is not known to the server any more")

// collection is what a watch has told, across its interruptions.
type collection[T any] struct {
	read func([]byte) (T, error)
	// items are what the last whole list and the events since then say.
	items map[string]T
	// fresh gathers a whole list until its end is told: an object that is not
	// in it was deleted while nobody watched.
	fresh map[string]T
	whole bool
	// version is where the next watch goes on, empty where it has to begin with
	// the whole list.
	version string
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// endOfList is set in the bookmark that ends the list of what there is.
const endOfList = metav1.InitialEventsAnnotationKey

type metadata struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// begin prepares for a watch.
func (c *collection[T]) begin() {
	c.fresh = nil
	if c.version == "" {
		c.fresh = map[string]T{}
	}
}

// take takes one event in, and reports whether the whole list is another one
// now. An object that is not understood ends the watch: without it the list
// would not be whole.
func (c *collection[T]) take(e event) (changed bool, err error) {
	if e.Type == "ERROR" {
		return false, c.failed(e.Object)
	}
	var m metadata
	if err := json.Unmarshal(e.Object, &m); err != nil {
		return false, fmt.Errorf("event of the watch: %w", err)
	}
	target := c.items
	if c.fresh != nil {
		target = c.fresh
	}
	switch e.Type {
	case "ADDED", "MODIFIED":
		item, err := c.read(e.Object)
		if err != nil {
			return false, fmt.Errorf("object %s: %w", m.Metadata.Name, err)
		}
		target[m.Metadata.Name], changed = item, true
	case "DELETED":
		delete(target, m.Metadata.Name)
		changed = true
	case "BOOKMARK":
		changed = c.bookmark(m)
	}
	if c.fresh != nil {
		return false, nil // the version of one object is not that of a list
	}
	c.version = m.Metadata.ResourceVersion
	return changed, nil
}

// bookmark ends the list of what there is, if it is the bookmark that does.
func (c *collection[T]) bookmark(m metadata) (changed bool) {
	if c.fresh == nil || m.Metadata.Annotations[endOfList] != "true" {
		return false
	}
	c.items, c.fresh, c.whole = c.fresh, nil, true
	return true
}

func (c *collection[T]) failed(object []byte) error {
	var s metav1.Status
	if err := json.Unmarshal(object, &s); err != nil {
		return fmt.Errorf("error of the watch: %w", err)
	}
	if s.Code == http.StatusGone || s.Reason == metav1.StatusReasonExpired || s.Reason == metav1.StatusReasonGone {
		c.version = ""
		return errStartOver
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// list returns what there is, ordered by name.
func (c *collection[T]) list() []T {
	out := make([]T, 0, len(c.items))
	for _, name := range slices.Sorted(maps.Keys(c.items)) {
		out = append(out, c.items[name])
	}
	return out
}

// gap is the pause before try number n, counted from 1, in a row of failures.
func gap(n int) time.Duration {
	const first, longest = 200 * time.Millisecond, 2 * time.Second
	return min(first<<min(n-1, 10), longest)
}
