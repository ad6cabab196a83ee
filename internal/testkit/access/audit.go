package access

import (
	"bytes"
	"encoding/json"
)

// Record is a line of an audit log, as far as it is needed.
type Record struct {
	UserAgent string `json:"userAgent"`
	Verb      string `json:"verb"`
	URI       string `json:"requestURI"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// Records reads an audit log into a map by user agent. The last line may still
// be incomplete.
func Records(log []byte) map[string]Record {
	out := map[string]Record{}
	for line := range bytes.Lines(log) {
		var r Record
		if json.Unmarshal(line, &r) == nil && r.UserAgent != "" {
			out[r.UserAgent] = r
		}
	}
	return out
}
