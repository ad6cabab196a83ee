package access

import (
	"bytes"
	"encoding/json"
)

// Record is what a line of an audit log says of a request.
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

// Records reads an audit log, by the agents of requests. Its last line may not
// be whole yet.
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
