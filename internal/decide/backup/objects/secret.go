package objects

import "fmt"

// lastApplied is the annotation in which kubectl keeps the object as it was given, with all its
// secrets.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secretKinds are the resources whose objects hold secrets.
var secretKinds = []string{"secrets", "proxies.config.openshift.io"}

// SecretKinds returns the resources whose objects hold secrets.
func SecretKinds() []string { return append([]string{}, secretKinds...) }

// Secret reports whether the content of an object is a secret. What an API server encrypts counts
// as one, whatever it is.
func (o Object) Secret() bool {
	for _, kind := range secretKinds {
		if o.String() == kind {
			return true
		}
	}
	return o.Encrypted
}

// Hidden returns the object without its secrets: each value says how long it is. Metadata stays.
func (o Object) Hidden() Object {
	if !o.Secret() {
		return o
	}
	content := copyOf(o.Content)
	for field, value := range content {
		if field != "metadata" && field != "apiVersion" && field != "kind" && field != "type" {
			content[field] = hide(value)
		}
	}
	if annotations := fields(content, "metadata", "annotations"); annotations[lastApplied] != nil {
		annotations[lastApplied] = hide(annotations[lastApplied])
	}
	o.Content = content
	return o
}

func hide(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[k] = hide(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = hide(inner)
		}
		return out
	case string:
		return fmt.Sprintf("(hidden, %d characters)", len(v))
	case nil:
		return nil
	default:
		return "(hidden)"
	}
}
