package podmanetcd

import (
	"encoding/xml"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// Action is one action of the resource agent, with its limits.
type Action struct {
	Name     string
	Timeout  time.Duration
	Interval time.Duration // of the recurring monitor
}

// Actions returns the actions of the resource agent. Start returns at once,
// because a start that waits holds up what the other host needs; stop waits for
// the peer to take over, and for etcd to end.
func Actions() []Action {
	return []Action{
		{Name: "start", Timeout: 30 * time.Second},
		{Name: "stop", Timeout: 90 * time.Second},
		{Name: "monitor", Timeout: 10 * time.Second, Interval: 3 * time.Second},
		{Name: "notify", Timeout: 10 * time.Second},
		{Name: "reload-agent", Timeout: 20 * time.Second},
		{Name: "validate-all", Timeout: 10 * time.Second},
		{Name: "meta-data", Timeout: 5 * time.Second},
	}
}

type text struct {
	Lang string `xml:"lang,attr"`
	Text string `xml:",chardata"`
}

func english(s string) text { return text{"en", s} }

type xmlAgent struct {
	XMLName    xml.Name       `xml:"resource-agent"`
	Name       string         `xml:"name,attr"`
	Version    string         `xml:"version,attr"`
	OCF        string         `xml:"version"`
	Long       text           `xml:"longdesc"`
	Short      text           `xml:"shortdesc"`
	Parameters []xmlParameter `xml:"parameters>parameter"`
	Actions    []xmlAction    `xml:"actions>action"`
}

type xmlParameter struct {
	Name     string `xml:"name,attr"`
	Unique   int    `xml:"unique,attr"`
	Required int    `xml:"required,attr"`
	// Reloadable makes Pacemaker call reload-agent after a change. Without it,
	// Pacemaker would stop etcd on both hosts and start it again.
	Reloadable int        `xml:"reloadable,attr"`
	Long       text       `xml:"longdesc"`
	Short      text       `xml:"shortdesc"`
	Content    xmlContent `xml:"content"`
}

type xmlContent struct {
	Type    string `xml:"type,attr"`
	Default string `xml:"default,attr,omitempty"`
}

type xmlAction struct {
	Name     string `xml:"name,attr"`
	Timeout  string `xml:"timeout,attr"`
	Interval string `xml:"interval,attr,omitempty"`
	Depth    string `xml:"depth,attr,omitempty"`
}

// MetaData returns the resource agent's description in the form of the OCF
// standard, made from the tables of parameters and actions.
func MetaData() ([]byte, error) {
	doc := xmlAgent{
		Name: "podman-etcd", Version: payload.Version, OCF: "1.1",
		Short: english("etcd in podman, one of two voters"),
		Long: english("Runs etcd in podman as one of the two members of a cluster on two nodes. Which member may lead, start or be emptied " +
			"is decided by the etcd keeper (podman-etcd.service); the actions ask it. Use it as a clone with interleave=true and notify=true. " +
			"`holdfast explain etcd` shows what it does and why."),
	}
	for _, p := range parameters {
		required := 0
		if p.required {
			required = 1
		}
		doc.Parameters = append(doc.Parameters, xmlParameter{
			Name: p.name, Required: required, Reloadable: 1, Long: english(p.long), Short: english(p.short),
			Content: xmlContent{p.kind, p.standard},
		})
	}
	for _, a := range Actions() {
		x := xmlAction{Name: a.Name, Timeout: seconds(a.Timeout)}
		if a.Interval > 0 {
			x.Interval, x.Depth = seconds(a.Interval), "0"
		}
		doc.Actions = append(doc.Actions, x)
	}
	out, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("meta-data: %w", err)
	}
	return append([]byte(xml.Header), append(out, '\n')...), nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", d/time.Second) }
