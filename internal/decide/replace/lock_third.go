package replace

import "encoding/json"

// ThirdOf returns the name of the third control plane that the plan in the lock brings (docs/adr/0097) or
// takes out (docs/adr/0102), empty if it does neither. data is that of the ConfigMap.
func ThirdOf(data map[string]string) string {
	var p Plan
	if err := json.Unmarshal([]byte(data[LockCopy]), &p); err != nil || p.ID != data[LockKey] {
		return ""
	}
	switch {
	case p.Widens:
		return p.New.Name
	case p.Narrows:
		return p.Old.Name
	}
	return ""
}
