package tools

import "testing"

// TestJoin_keeps_names_of_documents from meaning the tool of an MCP server that has the same name there.
func TestJoin_keeps_names_of_documents(t *testing.T) {
	document := NewToolset("trips", []*Tool{{Name: "list"}})
	server := NewToolset("files", []*Tool{
		{Name: "list", Foreign: &Foreign{Kind: ForeignTool, Name: "list"}},
		{Name: "read_file", Foreign: &Foreign{Kind: ForeignTool, Name: "read-file"}},
	})
	s := Join([]*Toolset{document, server}, [][]string{{"trips_list"}, {"files_list", "read_file"}})
	if found, ok := s.Tool("list"); ok {
		t.Errorf("list is %s", found.Name)
	}
	if found, _ := s.Tool("read-file"); found == nil || found.Name != "read_file" {
		t.Errorf("read-file is %v", found)
	}
}

// TestJoin_names_of_servers_with_a_prefix do not mean the tool whose plain name they are.
func TestJoin_names_of_servers_with_a_prefix(t *testing.T) {
	m := newMerger(t, "trips", "files")
	m.Merge(part("t", "list"), server("f", "list"))
	if found, ok := m.Merge(part("t", "book"), server("f", "list")).Tool("list"); ok {
		t.Errorf("list is %s", found.Name)
	}
}
