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

// Kind describes how to watch objects of one kind, and what to keep of them.
type Kind[T any] struct {
	// Path is the path of the collection in the API.
	Path string
	// Only is the name of the single wanted object, empty for all.
	Only string
	// Read returns the part of an object to keep. It returns an error for an
	// object that it does not understand.
	Read func(object []byte) (T, error)
}

// errStartOver ends a watch after which the next one has to begin with the
// whole list.
var errStartOver = errors.New("the server no longer has the events since the last one")

// collection holds what a watch has reported, across its interruptions.
type collection[T any] struct {
	read func([]byte) (T, error)
	// items are the objects of the last whole list, with the events since then.
	items map[string]T
	// fresh collects a whole list until its end: an object that is not in it
	// was deleted while nobody watched.
	fresh map[string]T
	whole bool
	// version is the version at which the next watch continues; empty if it has
	// to begin with the whole list.
	version string
}

// event is one line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// endOfList is the annotation of the bookmark that ends the initial list.
const endOfList = metav1.InitialEventsAnnotationKey

type metadata struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// begin prepares the collection for a watch.
func (c *collection[T]) begin() {
	c.fresh = nil
	if c.version == "" {
		c.fresh = map[string]T{}
	}
}

// take applies one event, and reports whether the whole list has changed. An
// object that it does not understand ends the watch: without that object the
// list would not be complete.
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
		return false, nil // the version of one object is not the version of a list
	}
	c.version = m.Metadata.ResourceVersion
	return changed, nil
}

// bookmark completes the list if m is the bookmark that ends the initial list.
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

// list returns all objects, ordered by name.
func (c *collection[T]) list() []T {
	out := make([]T, 0, len(c.items))
	for _, name := range slices.Sorted(maps.Keys(c.items)) {
		out = append(out, c.items[name])
	}
	return out
}

// gap returns the pause before attempt n, counted from 1, in a row of failures.
func gap(n int) time.Duration {
	const first, longest = 200 * time.Millisecond, 2 * time.Second
	return min(first<<min(n-1, 10), longest)
}
