package redfish

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// docs/facts/loss.md#hard-cases-of-loss, L24: an installer that somebody inserted at the BMC and
// forgot there boots after the next fence.
func TestL24AMediumThatIsInsertedIsNamed(t *testing.T) {
	const systems, managers = "/redfish/v1/Systems/1", "/redfish/v1/Managers/1"
	inserted := `{"Id":"CD","Inserted":true,"Image":"https://kim:hush@images.site/boot/installer.iso?token=hush"}`
	managed := map[string]string{
		systems:                       `{"Id":"1","UUID":"` + testUUID + `","PowerState":"On","Links":{"ManagedBy":[{"@odata.id":"` + managers + `"}]}}`,
		managers:                      `{"VirtualMedia":{"@odata.id":"` + managers + `/VirtualMedia"}}`,
		managers + "/VirtualMedia":    `{"Members":[{"@odata.id":"` + managers + `/VirtualMedia/CD"},{"@odata.id":"` + managers + `/VirtualMedia/USB"}]}`,
		managers + "/VirtualMedia/CD": inserted, managers + "/VirtualMedia/USB": `{"Id":"USB","Inserted":false,"Image":null}`,
	}
	with := func(pages map[string]string, path, text string) map[string]string {
		out := map[string]string{path: text}
		for k, v := range pages {
			if _, set := out[k]; !set {
				out[k] = v
			}
		}
		return out
	}
	for what, c := range map[string]struct {
		pages map[string]string
		want  []string
		fails bool
	}{
		"at the controller": {managed, []string{"CD: installer.iso"}, false},
		"at the system": {map[string]string{
			systems: `{"Id":"1","UUID":"` + testUUID + `","PowerState":"On","VirtualMedia":{"@odata.id":"` + systems + `/VirtualMedia"}}`, systems + "/VirtualMedia": `{"Members":[{"@odata.id":"` + systems + `/VirtualMedia/1"}]}`,
			systems + "/VirtualMedia/1": `{"Id":1,"Inserted":true,"ImageName":"dir/rescue.img"}`,
		}, []string{"1: rescue.img"}, false},
		"nothing is inserted":                {with(managed, managers+"/VirtualMedia/CD", `{"Id":"CD","Inserted":false}`), nil, false},
		"a word in the place of yes or no":   {with(managed, managers+"/VirtualMedia/CD", `{"Id":"CD","Inserted":"true"}`), nil, false},
		"one that does not say what it has":  {with(managed, managers+"/VirtualMedia/CD", `{"Id":"CD","Inserted":true}`), []string{"CD: an image"}, false},
		"a controller without virtual media": {with(managed, managers, `{}`), nil, false},
		"a system that nobody manages":       {with(managed, systems, `{"Id":"1","UUID":"`+testUUID+`","PowerState":"On"}`), nil, false},
		"a list that is refused":             {with(managed, managers+"/VirtualMedia", ""), nil, true},
		"a medium that is refused":           {with(managed, managers+"/VirtualMedia/CD", ""), nil, true},
	} {
		t.Run(what, func(t *testing.T) {
			e := answers(t, func(w http.ResponseWriter, r *http.Request) {
				text := c.pages[strings.TrimSuffix(r.URL.Path, "/")]
				if strings.TrimSuffix(r.URL.Path, "/") == "/redfish/v1" {
					text = `{"@odata.id":"/redfish/v1/"}`
				}
				if text == "" {
					w.WriteHeader(http.StatusForbidden)
				}
				_, _ = io.WriteString(w, text)
			})
			got, err := open(t, e).Media(t.Context())
			if !slices.Equal(got, c.want) && !c.fails || (err != nil) != c.fails {
				t.Errorf("got %q, %v", got, err)
			}
			if strings.Contains(strings.Join(got, " "), "hush") {
				t.Errorf("%q has an account", got)
			}
		})
	}
}
