package objects

import (
	"cmp"
	"slices"
)

// Count counts the objects of one resource, in one namespace or without one.
type Count struct {
	Kind
	Namespace string `json:"namespace,omitempty"`
	Objects   int    `json:"objects"`
	// Size is that of all values together, in bytes.
	Size int64 `json:"size"`
}

// Counter counts objects. Its zero value is ready.
type Counter struct{ counts map[Count]Count }

// Add counts an object.
func (c *Counter) Add(o Object) {
	if c.counts == nil {
		c.counts = map[Count]Count{}
	}
	at := Count{Kind: o.Kind, Namespace: o.Namespace}
	sum := c.counts[at]
	c.counts[at] = Count{Kind: o.Kind, Namespace: o.Namespace, Objects: sum.Objects + 1, Size: sum.Size + o.Size}
}

// Counts returns the counts by namespace and resource; those without a namespace come first.
func (c *Counter) Counts() []Count {
	out := make([]Count, 0, len(c.counts))
	for _, one := range c.counts {
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.String(), b.String()), cmp.Compare(a.Version, b.Version))
	})
	return out
}
