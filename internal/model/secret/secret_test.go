package secret

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestNothingPrintsASecretButReveal(t *testing.T) {
	s := Text("S3cr3t-x")
	coded, err := json.Marshal(map[string]Text{"password": s})
	if err != nil {
		t.Fatal(err)
	}
	yaml, _ := s.MarshalYAML()
	shown := []string{string(coded), fmt.Sprint(yaml)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, []Text{s}), fmt.Sprintf(verb, struct{ Password Text }{s}))
	}
	for _, text := range shown {
		if strings.Contains(text, "S3cr3t") || strings.Contains(text, "533363") {
			t.Errorf("%s", text)
		}
	}
	if s.Reveal() != "S3cr3t-x" || fmt.Sprint(Text("")) != "" {
		t.Error("the value is lost, or nothing is shown as something")
	}
}
