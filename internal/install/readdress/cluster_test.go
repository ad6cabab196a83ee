package readdress

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/model/state"
)

// infrastructure is an API that has the Infrastructure object alone.
type infrastructure struct {
	API
	announces string
}

func (i *infrastructure) Fields(context.Context, state.ObjectRef) (map[string]any, error) {
	if i.announces == "" {
		return map[string]any{"metadata": map[string]any{}}, nil
	}
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{kube.ReaddressAnnotation: i.announces}}}, nil
}

func (i *infrastructure) Merge(_ context.Context, _ state.ObjectRef, _ bool, _, patch map[string]any) (bool, error) {
	if set := patch["metadata"].(map[string]any)["annotations"].(map[string]any); set[kube.ReaddressAnnotation] == nil {
		i.announces = ""
	}
	return true, nil
}

func TestOnlyTheAnnouncementOfAMoveThatIsOverIsTakenAway(t *testing.T) {
	text := func(id string) string {
		p := move(t)
		p.ID = id
		data, err := json.Marshal(p)
		must(t, err)
		return string(data)
	}
	for has, stays := range map[string]bool{text("m"): false, text("m2"): true, "{": true, "": false} {
		api := &infrastructure{announces: has}
		must(t, Withdraw(t.Context(), api, "m"))
		if stays != (api.announces != "") {
			t.Errorf("%.20q: left is %.20q", has, api.announces)
		}
	}
}
