-- A session in Neovim, without a screen: see test_editors.py. Its words go to standard error. From
-- 0.11 on it is configured as the docs say (PTXSW_CONFIG).
local path, command = vim.env.PTXSW_FILE, vim.fn.split(vim.env.PTXSW_COMMAND)

local function started()
  if vim.lsp.config then
    vim.cmd("filetype on")
    dofile(vim.env.PTXSW_CONFIG)
    vim.cmd("edit " .. vim.fn.fnameescape(path))
    assert(vim.wait(60000, function() return #vim.lsp.get_clients() == 1 end, 50), "no client")
    return vim.lsp.get_clients()[1].id
  end
  vim.cmd("edit " .. vim.fn.fnameescape(path))
  local client = vim.lsp.start_client({
    name = "ptxsw",
    cmd = command,
    root_dir = vim.fn.fnamemodify(path, ":h"),
    init_options = { check = { "--select", "all" } },
  })
  vim.lsp.buf_attach_client(0, client)
  return client
end

local function session()
  local function found()
    return vim.diagnostic.get(0)
  end

  local client = started()

  local function wait(what, condition)
    assert(vim.wait(60000, condition, 50), "waited in vain for " .. what)
  end

  wait("a diagnostic", function() return #found() == 1 end)
  local first = found()[1]
  print(("%d: %s\n"):format(first.lnum + 1, first.code))

  local at = { textDocument = vim.lsp.util.make_text_document_params(), position = { line = first.lnum, character = 0 } }
  wait("a hover", function()
    local answers = vim.lsp.buf_request_sync(0, "textDocument/hover", at, 5000) or {}
    local result = answers[client] and answers[client].result
    return result and result.contents and result.contents.value:find("32%-way bank conflict")
  end)

  local context = { diagnostics = { first.user_data.lsp and {
    range = { start = { line = first.lnum, character = first.col }, ["end"] = { line = first.end_lnum, character = first.end_col } },
    message = first.message, source = first.source, code = first.code, data = first.user_data.lsp.data,
  } } }
  local asked = { textDocument = at.textDocument, range = context.diagnostics[1].range, context = context }
  local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", asked, 5000)
  local action = answers[client].result[1]
  print(action.title .. "\n")
  local encoding = vim.lsp.get_client_by_id(client).offset_encoding
  vim.lsp.util.apply_workspace_edit(action.edit, encoding)
  vim.cmd("write")
  wait("no diagnostic", function() return #found() == 0 end)
  print("mended\n")
end

local worked, problem = pcall(session)
if not worked then
  print(problem .. "\n")
  vim.cmd("cquit")
end
vim.cmd("qall!")
