package replace

import "encoding/json"

// ThirdOf returns the name of the third control plane that the plan in the lock brings (docs/adr/0097),
// empty if it brings none. data is that of the ConfigMap.
func ThirdOf(data map[string]string) string {
	var p Plan
	if err := json.Unmarshal([]byte(data[LockCopy]), &p); err != nil || !p.Widens || p.ID != data[LockKey] {
		return ""
	}
	return p.New.Name
}
